package process

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

// allowed are the variables that a child may inherit (UD-55). Keys of providers, tokens, displays and agents' sockets are
// not among them; what a backend needs it adds by name.
var allowed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "USERNAME", "HOMEDRIVE",
	"HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROCESSOR_ARCHITECTURE",
	"NUMBER_OF_PROCESSORS", "OS",
}

// Env makes a child's whole environment: what is allowed of environ, then extra. A child has no terminal, no display and no
// browser to open (UD-43).
func Env(environ []string, extra map[string]string) []string {
	vars := map[string]string{"NO_COLOR": "1", "TERM": "dumb", "BROWSER": noBrowser()}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(allowed, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") {
			vars[name] = value
		}
	}
	maps.Copy(vars, extra)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// Allowed lists the names that Env may pass on, for `doctor --env`.
func Allowed() []string { return append(slices.Clone(allowed), "LC_*") }

func noBrowser() string {
	if runtime.GOOS == "windows" {
		return "cmd /c exit 1"
	}
	return "false"
}
