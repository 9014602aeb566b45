package step_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/policy"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

const canary = "tk-FAKE-9f3c1d7ab2e84c60a1d5Zq"

// backend is a backend made of one function.
type backend func(ctx context.Context, s provider.Step, progress func(string)) wire.Output

func (b backend) Run(ctx context.Context, s provider.Step, progress func(string)) wire.Output {
	return b(ctx, s, progress)
}

func (backend) Probe(context.Context) provider.Status { return provider.Status{} }

func executor(t testing.TB, run backend) *step.Executor {
	t.Helper()
	mask := &redact.Set{}
	if err := mask.Add("canary", redact.New(canary)); err != nil {
		t.Fatal(err)
	}
	providers := map[string]step.Provider{
		"good":   {Backend: run, Name: "fake", AuthClass: wire.AuthLocal, State: provider.Ready},
		"picky":  {Backend: run, Name: "fake", Models: []string{"m1"}, State: provider.Ready},
		"logout": {Backend: run, Name: "fake", State: provider.NeedsLogin, Remedy: "run `claude login`"},
		"sub":    {Backend: run, Name: "fake", AuthClass: wire.AuthSubscription, State: provider.Ready},
	}
	return &step.Executor{
		Provider: func(id string) (step.Provider, bool) { p, ok := providers[id]; p.ID = id; return p, ok },
		Mask:     mask, Temp: t.TempDir(), Room: func() int { return wire.MaxResult }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func frame(provider, model, inputs string) wire.Dispatch {
	return wire.Dispatch{RunID: "r", StepID: "s:1:1", Seq: 7, Kind: wire.KindModel, Provider: provider, Model: model, Inputs: json.RawMessage(inputs)}
}

const hello = `{"messages":[{"role":"user","content":"hello"}]}`

// run plans and runs one step, and gives its output and its progress.
func run(t testing.TB, x *step.Executor, inputs string) (wire.Output, []string) {
	t.Helper()
	plan, refused := x.Plan(frame("good", "m", inputs))
	if refused != nil {
		t.Fatal(refused)
	}
	var deltas []string
	raw := x.Run(t.Context(), plan, func(d string) { deltas = append(deltas, d) })
	var out wire.Output
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out, deltas
}

func TestH05WhatCannotRunHereIsRefusedWithItsReason(t *testing.T) {
	ran := false
	x := executor(t, func(context.Context, provider.Step, func(string)) wire.Output { ran = true; return wire.Output{} })
	x.Rules = policy.Rules{NoSubscription: true}
	tool := frame("", "", `{}`)
	tool.Kind, tool.Tool = wire.KindTool, "shell.run"
	for name, c := range map[string]struct {
		frame wire.Dispatch
		code  wire.Code
		says  string
	}{
		"tool":                    {tool, wire.CodePolicyDenied, "shell.run"},
		"provider not here":       {frame("openai", "m", hello), wire.CodeInvalidInput, "openai"},
		"model not here":          {frame("picky", "m2", hello), wire.CodeInvalidInput, "m2"},
		"not logged in":           {frame("logout", "m", hello), wire.CodeAuthRequired, "claude login"},
		"policy":                  {frame("sub", "m", hello), wire.CodePolicyDenied, "subscriptions"},
		"no messages":             {frame("good", "m", `{}`), wire.CodeInvalidInput, "messages"},
		"a member too many":       {frame("good", "m", `{"messages":[{"role":"user","content":"x"}],"sudo":true}`), wire.CodeInvalidInput, "sudo"},
		"a member too many, deep": {frame("good", "m", `{"messages":[{"role":"user","content":"x","shell":"ls"}]}`), wire.CodeInvalidInput, "messages[0].shell"},
		"a wrong role":            {frame("good", "m", `{"messages":[{"role":"root","content":"x"}]}`), wire.CodeInvalidInput, "role"},
		"a number for a text":     {frame("good", "m", `{"messages":[{"role":"user","content":7}]}`), wire.CodeInvalidInput, "content"},
	} {
		plan, refused := x.Plan(c.frame)
		if plan != nil || refused == nil || refused.Code != c.code || !strings.Contains(refused.Message, c.says) {
			t.Errorf("%s: %v, want %s with %q", name, refused, c.code, c.says)
		}
	}
	if ran {
		t.Error("something was run")
	}
}

func TestResultHasWhatIsKnownOfTheStep(t *testing.T) {
	x := executor(t, func(_ context.Context, s provider.Step, progress func(string)) wire.Output {
		progress("hel")
		progress("lo")
		return wire.Output{Text: s.Inputs.Messages[0].Content.String(), FinishReason: "stop"}
	})
	out, deltas := run(t, x, hello)
	if out.Timing == nil || out.Timing.FirstOutputMs < 1 {
		t.Errorf("timing = %+v", out.Timing)
	}
	out.Timing = nil
	want := wire.Output{Text: "hello", FinishReason: "stop", Model: "m", Backend: "fake", AuthClass: wire.AuthLocal}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if got := strings.Join(deltas, ""); got != "hello" {
		t.Errorf("progress = %q", got)
	}
}

func TestStepHasAPrivateFolderThatIsGoneAfterwards(t *testing.T) {
	var dir string
	x := executor(t, func(_ context.Context, s provider.Step, _ func(string)) wire.Output {
		dir = s.Dir
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("folder: %v, %v", info, err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a/b/left"), nil, 0o400); err != nil {
			t.Error(err)
		}
		if err := os.Chmod(filepath.Join(dir, "a/b"), 0); err != nil {
			t.Error(err)
		}
		return wire.Output{}
	})
	run(t, x, hello)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder is still there: %v", err)
	}
}

func TestFoldersOfAnEarlierProcessAreRemoved(t *testing.T) {
	x := executor(t, nil)
	old := filepath.Join(x.Temp, "step-123")
	if err := os.MkdirAll(filepath.Join(old, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := x.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

// A credential in every string of an output, and one cut anywhere in the progress, is masked (UD-66).
func TestUD66NoCredentialLeavesTheStep(t *testing.T) {
	raw := json.RawMessage(`{"k":"` + canary + `","` + canary + `":[1,"` + canary + `"]}`)
	for cut := 1; cut < len(canary); cut++ {
		x := executor(t, func(_ context.Context, _ provider.Step, progress func(string)) wire.Output {
			progress("a" + canary[:cut])
			progress(canary[cut:] + "b")
			return wire.Output{
				Text: canary, Content: []wire.Part{{Type: "text", Text: "x" + canary}}, FinishReason: canary, Model: canary,
				ToolCalls: []wire.ToolCall{{ID: canary, Name: canary, Arguments: raw}, {Arguments: json.RawMessage("not JSON " + canary)}},
				Result:    raw, Exit: &wire.Exit{Signal: canary},
				Error: &wire.StepError{Code: wire.CodeProviderError, Message: "said " + canary, Detail: raw},
			}
		})
		out, deltas := run(t, x, hello)
		b, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), canary) {
			t.Fatalf("output holds it: %s", b)
		}
		if text := strings.Join(deltas, ""); text != "a[REDACTED:canary]b" {
			t.Errorf("cut at %d: progress = %q", cut, text)
		}
	}
}

func TestUD93ControlSequencesNeverReachTheResult(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                      {"tab\tand\nnewline, café, \u2028", "tab\tand\nnewline, café, \u2028"},
		"colour":                     {"\x1b[31mred\x1b[0m", "red"},
		"clipboard (OSC 52), BEL":    {"a\x1b]52;c;aGFjaw==\x07b", "ab"},
		"clipboard (OSC 52), ST":     {"a\x1b]52;c;aGFjaw==\x1b\\b", "ab"},
		"title":                      {"a\x1b]0;pwned\x07b", "ab"},
		"hyperlink":                  {"\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"},
		"DCS, APC, PM, SOS":          {"\x1bPx\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\.", "."},
		"8-bit CSI and OSC":          {"\u009b31mred\u009d0;t\u009c.", "red."},
		"charset and keypad":         {"\x1b(0a\x1b=b\x1b>c", "abc"},
		"bell, backspace, NUL, DEL":  {"a\x07b\x08c\x00d\x7fe", "abcde"},
		"carriage returns":           {"a\r\nb\rc", "a\nbc"},
		"unfinished at the end":      {"a\x1b[31", "a"},
		"unfinished string":          {"a\x1b]0;" + strings.Repeat("x", 5000) + "the end", "the end"},
		"a sequence in a sequence":   {"\x1b]0;\x1b[31mx\x1b\\y", "xy"},
		"a sequence that is no more": {"\x1b[31\u00e9x", "éx"},
		"cancelled":                  {"\x1b]0;t\x18x", "x"},
		"a credential cut by one":    {canary[:9] + "\x1b[0m" + canary[9:], "[REDACTED:canary]"},
		"invalid UTF-8":              {"a\xffb\xe2\x82", "a\ufffdb\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			x := executor(t, func(_ context.Context, _ provider.Step, progress func(string)) wire.Output {
				for i := range len(c.in) { // byte by byte, so that every sequence is cut everywhere
					progress(c.in[i : i+1])
				}
				return wire.Output{Text: c.in}
			})
			out, deltas := run(t, x, hello)
			got, live := out.Text, strings.Join(deltas, "")
			if name == "unfinished string" {
				got, live = got[len(got)-7:], live[len(live)-7:]
			}
			if got != c.want || live != c.want {
				t.Errorf("text %q, progress %q, want %q", got, live, c.want)
			}
		})
	}
}

func TestUD91AResultThatIsTooLargeIsCutAndSaysByHowMuch(t *testing.T) {
	long := "HEAD" + strings.Repeat("0123456789\"\n\u20ac", 9_000) + "TAIL"
	image := wire.Part{Type: "image", MimeType: "image/png", Data: strings.Repeat("A", 90<<10)}
	for name, c := range map[string]struct {
		out  wire.Output
		code wire.Code
	}{
		"text":              {out: wire.Output{Text: long}},
		"content":           {out: wire.Output{Content: []wire.Part{{Type: "text", Text: long}, {Type: "text", Text: long}}}},
		"text and content":  {out: wire.Output{Text: long, Content: []wire.Part{{Type: "text", Text: long}}}},
		"error":             {out: wire.Output{Error: &wire.StepError{Code: wire.CodeProviderError, Message: long}}, code: wire.CodeProviderError},
		"images":            {out: wire.Output{Text: "HEAD TAIL", Content: []wire.Part{image, image, image}}},
		"tool calls":        {out: wire.Output{Text: "HEAD TAIL", ToolCalls: []wire.ToolCall{{ID: "1", Name: "n", Arguments: encoded(t, long)}}}, code: wire.CodeResultTooLarge},
		"a tool's result":   {out: wire.Output{Result: encoded(t, long)}, code: wire.CodeResultTooLarge},
		"an error's detail": {out: wire.Output{Error: &wire.StepError{Code: wire.CodeToolError, Message: "m", Detail: encoded(t, long)}}, code: wire.CodeToolError},
	} {
		t.Run(name, func(t *testing.T) {
			x := executor(t, func(context.Context, provider.Step, func(string)) wire.Output { return c.out })
			for _, room := range []int{100 << 10, 4 << 10} {
				x.Room = func() int { return room }
				plan, _ := x.Plan(frame("good", "m", hello))
				raw := x.Run(t.Context(), plan, func(string) {})
				b, err := json.Marshal(wire.Result{RunID: "r", StepID: "s:1:1", Seq: 7, Output: raw})
				if err != nil || len(b) > room {
					t.Errorf("frame of %d bytes in %d: %v", len(b), room, err)
				}
				var out wire.Output
				if err := json.Unmarshal(raw, &out); err != nil || !utf8.Valid(raw) {
					t.Fatal(err)
				}
				if out.Truncated == nil || out.Truncated.Bytes < int64(30<<10) {
					t.Errorf("room %d: truncated = %+v", room, out.Truncated)
				}
				switch {
				case (out.Error != nil) != (c.code != "") || out.Error != nil && out.Error.Code != c.code:
					t.Errorf("room %d: error %v, want code %q", room, out.Error, c.code)
				case name == "text" && (!strings.HasPrefix(out.Text, "HEAD") || !strings.HasSuffix(out.Text, "TAIL") || !strings.Contains(out.Text, "bytes were cut here")):
					t.Errorf("room %d: head and tail are gone: %.20q", room, out.Text)
				case name == "text" && len(raw) < room*3/4:
					t.Errorf("room %d: only %d bytes are left", room, len(raw))
				}
			}
		})
	}
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Inputs of any kind reach the backend as they are, and nothing else does (faults H08).
func TestH08InputsAreData(t *testing.T) {
	for _, text := range []string{"--config=/etc/passwd", "\x1b]52;c;x\x07", "../../../etc/passwd", "$(reboot)", "; rm -rf /", "\u202e\x00"} {
		x := executor(t, func(_ context.Context, s provider.Step, _ func(string)) wire.Output {
			if got := s.Inputs.Messages[0].Content.String(); got != text {
				t.Errorf("backend got %q, want %q", got, text)
			}
			return wire.Output{}
		})
		in, err := json.Marshal(wire.ModelInputs{Messages: []wire.Message{{Role: "user", Content: wire.Text(text)}}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, x, string(in))
	}
}

// However a text is cut into pieces, the same comes out, and it is clean.
func FuzzProgress(f *testing.F) {
	f.Add("a\x1b[31mred\x1b[0m"+canary, uint16(3), uint16(9))
	f.Add("\x1b]52;c;x\x07\u009b1m\xff\xe2\x82\xac", uint16(1), uint16(2))
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		x := executor(t, func(_ context.Context, _ provider.Step, progress func(string)) wire.Output {
			for _, piece := range []string{text[:i], text[i:j], text[j:]} {
				progress(piece)
			}
			return wire.Output{Text: text}
		})
		out, deltas := run(t, x, hello)
		live := strings.Join(deltas, "")
		for _, got := range []string{out.Text, live} {
			if !utf8.ValidString(got) || strings.Contains(got, canary) || strings.ContainsFunc(got, func(r rune) bool {
				return r < 0x20 && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f
			}) {
				t.Errorf("%q came out as %q", text, got)
			}
		}
	})
}
