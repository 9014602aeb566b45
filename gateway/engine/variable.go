package engine

import "maps"

import "encoding/json"

// A changed variable is one that a node gave another value.
type changed struct {
	raw       json.RawMessage
	untrusted bool
}

// variable is what a node gave a variable, else the run's input of that name, else the workflow's default.
func (s *State) variable(name string) (value, bool) {
	v := value{raw: s.wf.variables[name].value}
	if raw, given := s.begun.inputs[name]; given {
		v.raw, v.untrusted = raw, s.begun.untrusted
	}
	if c, ok := s.changed[name]; ok {
		v.raw, v.untrusted = c.raw, c.untrusted
	}
	if s.sensitive(name) {
		v.variable = name
	}
	return v, v.raw != nil
}

// sensitive reports whether a variable's value may not be shown: by its definition, or because whoever started the run says so.
func (s *State) sensitive(name string) bool {
	return s.wf.variables[name].sensitive || s.begun.hidden[name]
}

// variables are the names of all that have a value.
func (s *State) variables() map[string]bool {
	names := map[string]bool{}
	for name, v := range s.wf.variables {
		if v.value != nil {
			names[name] = true
		}
	}
	for name := range s.begun.inputs {
		names[name] = true
	}
	for name := range s.changed {
		names[name] = true
	}
	return names
}

// foldChange keeps the map that clones share as it is.
func (s *State) foldChange(e Event) error {
	var p variableChanged
	if err := decode(e.Payload, &p); err != nil {
		return err
	}
	all := make(map[string]changed, len(s.changed)+1)
	maps.Copy(all, s.changed)
	all[p.Name] = changed{p.Next, e.ContentTrust != Trusted}
	s.changed = all
	return nil
}
