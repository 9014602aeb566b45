package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// tree reads every file below a folder.
func tree(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// encodings are the forms in which a value may hide.
func encodings(s string) []string {
	quoted, _ := json.Marshal(s) // a string always encodes
	forms := []string{s, string(quoted[1 : len(quoted)-1]), url.QueryEscape(s), hex.EncodeToString([]byte(s))}
	for shift := range 3 { // base64 at each alignment, without the ends that depend on the neighbours
		padded := append(make([]byte, shift), s...)
		enc := base64.StdEncoding.EncodeToString(padded)
		forms = append(forms, enc[(shift*8+5)/6:len(enc)-4])
	}
	return forms
}
