package policy_test

import (
	"testing"

	"runnerd/internal/wire"
	"runnerd/runner/policy"
)

func TestModelIsAllowedUnlessARuleForbidsIt(t *testing.T) {
	for name, c := range map[string]struct {
		rules    policy.Rules
		provider string
		class    string
		want     policy.Decision
	}{
		"no rules":                    {policy.Rules{}, "openai", wire.AuthAPIKey, policy.Allow},
		"denied":                      {policy.Rules{Providers: map[string]policy.Decision{"openai": policy.Deny}}, "openai", wire.AuthAPIKey, policy.Deny},
		"another is denied":           {policy.Rules{Providers: map[string]policy.Decision{"openai": policy.Deny}}, "ollama", wire.AuthLocal, policy.Allow},
		"subscription":                {policy.Rules{}, "anthropic", wire.AuthSubscription, policy.Allow},
		"subscriptions are forbidden": {policy.Rules{NoSubscription: true}, "anthropic", wire.AuthSubscription, policy.Deny},
		"forbidden beats allowed": {policy.Rules{NoSubscription: true, Providers: map[string]policy.Decision{"anthropic": policy.Allow}},
			"anthropic", wire.AuthSubscription, policy.Deny},
		"a key where subscriptions are forbidden": {policy.Rules{NoSubscription: true}, "anthropic", wire.AuthAPIKey, policy.Allow},
	} {
		got, reason := c.rules.Model(c.provider, c.class)
		if got != c.want || (reason == "") != (got == policy.Allow) {
			t.Errorf("%s: %v %q, want %v", name, got, reason, c.want)
		}
	}
}

func TestToolIsDeniedUnlessARuleAllowsIt(t *testing.T) {
	rules := policy.Rules{Tools: map[string]policy.Decision{"fs.read": policy.Allow, "shell.run": policy.Ask, "fs.write": policy.Deny}}
	for tool, want := range map[string]policy.Decision{
		"fs.read": policy.Allow, "shell.run": policy.Ask, "fs.write": policy.Deny, "never.heard.of": policy.Deny, "": policy.Deny,
	} {
		if got, reason := rules.Tool(tool); got != want || (reason == "") != (got != policy.Deny) {
			t.Errorf("%q: %v %q, want %v", tool, got, reason, want)
		}
	}
}
