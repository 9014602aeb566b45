package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// TestAnotherSubjectsThingsAreLikeUnknownOnes walks the routes: for each that names something, the answer to a stranger's
// request is that to a request for nothing, byte for byte, and changes nothing.
func TestAnotherSubjectsThingsAreLikeUnknownOnes(t *testing.T) {
	w := newWorld(t)
	l := w.laptop(alice)
	w.define(alice.Tenant(), "same", identityNode)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"secret of alice"}}`)
	ref := l.take()
	l.report(func(r *wire.Report) {
		r.Asks = []wire.Ask{{StepRef: ref, ID: "ask_1", Tool: "shell.run", Title: "run it?", ExpiresMs: 60_000}}
	})
	mine := map[string]string{"{runId}": id, "{runnerId}": l.tokens.RunnerID, "{askId}": "ask_1", "{workflowId}": "same", "{code}": "BCDF-GHJK"}
	before := w.trace()
	for _, rt := range routes() {
		name := strings.Join(pathParams(rt.path), ",")
		if rt.guard != byBearer || name == "" || name == "code" {
			continue
		}
		path, unknown := rt.path, rt.path
		for param, value := range mine {
			path = strings.ReplaceAll(path, param, value)
			unknown = strings.ReplaceAll(unknown, param, "unknown-"+value)
		}
		_, body := rt.sample()
		for _, stranger := range []store.Subject{bob, carol} {
			if name == "workflowId" && stranger == bob {
				continue // workflows are the tenant's
			}
			foreign, nothing := w.as(stranger, rt.method, path, body), w.as(stranger, rt.method, unknown, body)
			foreign.refused(http.StatusNotFound, "not_found")
			if foreign.body != nothing.body || foreign.status != nothing.status || len(foreign.header) != len(nothing.header) {
				t.Errorf("%s: %d %s; for what does not exist %d %s", foreign.what, foreign.status, foreign.body, nothing.status, nothing.body)
			}
		}
	}
	if after := w.trace(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	for _, stranger := range []store.Subject{bob, carol} {
		for _, rt := range routes() {
			if rt.guard == byBearer && rt.method == "GET" && len(pathParams(rt.path)) == 0 {
				for _, secret := range []string{id, l.tokens.RunnerID, "ask_1", "alice"} {
					if a := w.as(stranger, rt.method, rt.path, ""); strings.Contains(a.body, secret) {
						t.Errorf("%s tells %s of %s: %s", rt.path, stranger, secret, a.body)
					}
				}
			}
		}
	}
	var got askLine
	w.as(alice, "POST", host+"/asks/ask_1", `{"answer":"allow"}`).into(200, &got)
	l.finish(ref, "hello")
	if log := w.events(alice, id); !log.IsComplete {
		t.Errorf("the run of alice: %s", log.Events)
	}
}

func TestPairedRunnerBelongsToWhoApprovedIt(t *testing.T) {
	w := newWorld(t)
	var p wire.PairingReply
	w.send("POST", host+"/pairings", "", `{"name":"laptop","platform":"linux","version":"1"}`).into(201, &p)
	if !strings.HasPrefix(p.VerificationURI, w.srv.URL+"/pair") || !strings.HasSuffix(p.VerificationURIComplete, "/pair?code="+p.UserCode) {
		t.Errorf("pairing %+v", p)
	}
	var seen pairingReply
	w.as(bob, "GET", host+"/pairings/"+strings.ToLower(p.UserCode), "").into(200, &seen)
	if seen.Name != "laptop" || seen.State != "pending" || seen.RunnerID != "" {
		t.Errorf("seen %+v", seen)
	}
	w.as(alice, "POST", host+"/pairings/"+p.UserCode+"/approve", "").into(200, &seen)
	w.as(alice, "POST", host+"/pairings/"+p.UserCode+"/approve", "{}").refused(409, "pairing_settled")
	w.as(alice, "POST", host+"/pairings/"+p.UserCode+"/deny", "").refused(409, "pairing_settled")
	w.as(bob, "POST", host+"/pairings/"+p.UserCode+"/approve", "").refused(404, "not_found")
	var list runnerList
	w.as(alice, "GET", host+"/runners", "").into(200, &list)
	if len(list.Runners) != 1 || list.Runners[0].ID != seen.RunnerID {
		t.Errorf("runners of alice %+v", list)
	}
	w.as(bob, "GET", host+"/runners", "").into(200, &list)
	if len(list.Runners) != 0 {
		t.Errorf("runners of bob %+v", list)
	}
}

func TestGuessingUserCodesIsLimited(t *testing.T) {
	w := newWorld(t)
	for i := range 7 {
		a := w.as(bob, "POST", host+"/pairings/BCDF-GHJ"+string("BCDFGHJ"[i])+"/approve", "")
		if i < 5 {
			a.refused(404, "not_found")
			continue
		}
		details := a.refused(429, "rate_limited")
		if a.header.Get("Retry-After") == "" || details["scope"] != "key" || details["retryAfterMs"].(float64) <= 0 {
			t.Errorf("Retry-After %q, details %v", a.header.Get("Retry-After"), details)
		}
	}
	w.as(alice, "GET", host+"/pairings/BCDF-GHJK", "").refused(404, "not_found")
}

// TestNoTokenIsInALogOrAnError plants every kind of credential in requests of every kind.
func TestNoTokenIsInALogOrAnError(t *testing.T) {
	w := newWorld(t)
	cookie := w.signedIn().Value
	var page bearerReply
	w.bearer(cookie).into(200, &page)
	l := w.laptop(alice)
	link, err := w.id.NewSignIn(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	var p wire.PairingReply
	w.send("POST", host+"/pairings", "", `{"name":"laptop","platform":"linux","version":"1"}`).into(201, &p)
	secrets := map[string]string{"key": w.keys[alice], "cookie": cookie, "page bearer": page.Token, "runner bearer": l.tokens.AccessToken,
		"refresh token": l.tokens.RefreshToken, "sign-in token": link, "device code": p.DeviceCode, "vendor key": "sk-ant-api03-" + strings.Repeat("k", 80)}
	var answers strings.Builder
	for _, secret := range secrets {
		for _, rt := range routes() {
			path, _ := rt.sample()
			quoted, err := json.Marshal(secret)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []answer{
				w.send(rt.method, path, secret+"x", ""),
				w.as(alice, rt.method, path, `{"token":`+string(quoted)+`,"workflowId":`+string(quoted)+`,"answer":`+string(quoted)+`}`),
				w.as(alice, rt.method, path, string(quoted)+`x`, headerKey, secret+" x"),
				w.as(alice, "PATCH", path, "", "Cookie", cookieName+"="+secret),
				w.send(rt.method, path, "", "", "Cookie", cookieName+"="+secret+"x"),
			} {
				if a.status >= 400 {
					answers.WriteString(a.body)
				}
			}
		}
		w.send("POST", host+"/tokens", "", `{"device_code":"`+secret+`x"}`)
		w.send("POST", host+"/tokens", "", `{"refresh_token":"`+secret+`x"}`)
		w.send("GET", "/v1/"+secret, secret, "")
	}
	for name, secret := range secrets {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the %s is in the log", name)
		}
		if strings.Contains(answers.String(), secret) {
			t.Errorf("the %s is in an error", name)
		}
	}
}
