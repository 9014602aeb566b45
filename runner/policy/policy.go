// Package policy says who may do what on this machine, whatever a gateway sends (faults I13): a decision for each provider and
// each tool, with the words for the person who asked. It promises that what no rule names is decided the careful way: models
// of a provider that the owner enabled are allowed, tools are denied.
package policy

import "runnerd/internal/wire"

// A Decision is what a rule says.
type Decision int

// The decisions. The zero value is "no rule".
const (
	NoRule Decision = iota
	Deny
	Ask
	Allow
)

// Rules are the owner's, and above them those of whoever manages the machine. The zero value is the default.
type Rules struct {
	Providers      map[string]Decision
	Tools          map[string]Decision
	NoSubscription bool // forbid logins of personal subscriptions, whatever was enabled (UD-64)
}

// Model decides about a model step of a provider that is served with this auth class. The reason is for the person who
// started the run, and empty when the step is allowed.
func (r Rules) Model(provider, authClass string) (d Decision, reason string) {
	switch {
	case r.Providers[provider] == Deny:
		return Deny, "provider " + provider + " is denied by this machine's policy"
	case r.NoSubscription && authClass == wire.AuthSubscription:
		return Deny, "personal subscriptions are denied by this machine's policy"
	}
	return Allow, ""
}

// Tool decides about a tool step.
func (r Rules) Tool(name string) (d Decision, reason string) {
	switch r.Tools[name] {
	case Allow:
		return Allow, ""
	case Ask:
		return Ask, ""
	case Deny:
		return Deny, "tool " + name + " is denied by this machine's policy"
	}
	return Deny, "tool " + name + " is not allowed on this machine"
}
