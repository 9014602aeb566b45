package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.12}
`
	const skip = `{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: missing here: chromium\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	for name, tt := range map[string]struct {
		in     string
		strict bool
		want   string
		ok     bool
	}{
		"all pass":          {pass, true, "ok    p  0.1s\n1 passed, 0 failed\n", true},
		"skip on a laptop":  {skip + pass, false, "ok    p  0.1s\nSKIP  p TestB: b_test.go:3: missing here: chromium\n1 skipped\n1 passed, 0 failed\n", true},
		"skip in CI":        {skip + pass, true, "ok    p  0.1s\nSKIP  p TestB: b_test.go:3: missing here: chromium\nnothing may be skipped here: install what is missing\n1 passed, 1 failed\n", false},
		"seed of a fuzz":    {`{"Action":"skip","Package":"p","Test":"FuzzA/seed#0"}` + "\n" + pass, true, "ok    p  0.1s\n1 passed, 0 failed\n", true},
		"package, no tests": {`{"Action":"skip","Package":"q"}` + "\n" + pass, true, "ok    p  0.1s\n1 passed, 0 failed\n", true},
		"test fails": {`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Elapsed":1}`, false, "FAIL  p TestA\ngot 1\nFAIL  p  1.0s\n0 passed, 1 failed\n", false},
		"build fails": {`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: no\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p"}`, false, "p.go:1: no\nFAIL  p  0.0s\nFAIL\tp [build failed]\n0 passed, 1 failed\n", false},
		"panic": {`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`, false, "FAIL  p TestA did not end\npanic: no\nFAIL  p  0.0s\n0 passed, 1 failed\n", false},
		"nothing at all": {"", false, "no test was run\n0 passed, 1 failed\n", false},
		"other lines":    {"go: downloading x\n" + pass, false, "go: downloading x\nok    p  0.1s\n1 passed, 0 failed\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out, tt.strict)
			if err := r.read(strings.NewReader(tt.in)); err != nil {
				t.Fatal(err)
			}
			if ok := r.finish(); ok != tt.ok || out.String() != tt.want {
				t.Errorf("ok %v, output\n%s\nwant\n%s", ok, out.String(), tt.want)
			}
		})
	}
}
