package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion is the command that prints a shell's completion script. Embed it in a grammar.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Run prints the script. It is made from the grammar, so it knows every command and flag.
func (c *Completion) Run(out *Out, app *kong.Application) error {
	words := map[string][]string{}
	collect(app.Node, "", words)
	paths := slices.Sorted(func(yield func(string) bool) {
		for p := range words {
			if !yield(p) {
				return
			}
		}
	})
	var cases strings.Builder
	for _, p := range paths {
		if c.Shell == "fish" {
			fmt.Fprintf(&cases, "    case '%s'; printf '%%s\\n' %s\n", p, strings.Join(words[p], " "))
		} else {
			fmt.Fprintf(&cases, "    '%s') opts='%s' ;;\n", p, strings.Join(words[p], " "))
		}
	}
	_, err := fmt.Fprintf(out, scripts[c.Shell], app.Name, cases.String())
	return err
}

func collect(n *kong.Node, path string, words map[string][]string) {
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		words[path] = append(words[path], child.Name)
		collect(child, strings.TrimPrefix(path+" "+child.Name, " "), words)
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			words[path] = append(words[path], "--"+f.Name)
		}
	}
}

// In each script the words before the cursor that are not flags name the command.
var scripts = map[string]string{
	"bash": `_%[1]s() {
  local path= opts= w
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do [[ $w == -* ]] || path="${path:+$path }$w"; done
  case "$path" in
%[2]s  esac
  COMPREPLY=($(compgen -W "$opts" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _%[1]s %[1]s
`,
	"zsh": `#compdef %[1]s
_%[1]s() {
  local cmd= opts= w
  for w in ${words[2,CURRENT-1]}; do [[ $w == -* ]] || cmd="${cmd:+$cmd }$w"; done
  case "$cmd" in
%[2]s  esac
  compadd -- ${=opts}
}
compdef _%[1]s %[1]s
`,
	"fish": `function __%[1]s_words
  set -l path (string match -v -- '-*' (commandline -opc)[2..])
  switch "$path"
%[2]s  end
end
complete -c %[1]s -a '(__%[1]s_words)'
`,
}
