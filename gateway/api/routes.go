package api

import (
	"net/http"
	"strings"

	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/internal/wire"
)

// A route is one line of what the gateway serves, and all that its description says. in and out are values of the types
// that the bodies have; nil where there is no body.
type route struct {
	method, path string
	name         string // operationId
	about        string
	guard        guard
	scope        string
	query        []param
	once         bool // takes Idempotency-Key
	status       int
	in, out      any
	stream       bool // answers with an event stream
	handle       handler
}

// A param is a parameter of a query.
type param struct {
	name, kind, about string
}

const host = wire.Prefix

// routes lists every route that this package serves.
func routes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	const ok, created, empty = http.StatusOK, http.StatusCreated, http.StatusNoContent
	var paging = []param{{"after", "integer", "sequence after which to begin"}, {"limit", "integer", "1 to 1000, default 100"}}
	return []route{
		{method: get, path: "/.well-known/openwop", name: "discover", about: "What this host speaks and offers.",
			guard: byNothing, status: ok, out: anything{}, handle: (*Server).discover},
		{method: get, path: "/v1/openapi.json", name: "describe", about: "This document.",
			guard: byNothing, status: ok, out: anything{}, handle: (*Server).describe},

		{method: post, path: "/v1/runs", name: "createRun", about: "Creates a run and starts it.", scope: identity.ScopeRunsCreate,
			once: true, status: created, in: createRequest{}, out: createReply{}, handle: (*Server).createRun},
		{method: get, path: "/v1/runs", name: "listRuns", about: "The caller's runs: those that have not ended first, then the newest first.",
			scope: identity.ScopeRunsRead, query: []param{{"before", "string", "what the list before gave as next"}, {"limit", "integer", "1 to 200, default 50"}},
			status: ok, out: runList{}, handle: (*Server).listRuns},
		{method: get, path: "/v1/runs/{runId}", name: "getRun", about: "The snapshot of a run.", scope: identity.ScopeRunsRead,
			status: ok, out: engine.RunSnapshot{}, handle: (*Server).getRun},
		{method: get, path: "/v1/runs/{runId}/events", name: "streamEvents", about: "A run's log as it grows; Last-Event-ID resumes it.",
			scope: identity.ScopeRunsRead, query: []param{{"streamMode", "string", "comma-separated: " + strings.Join(modeNames(), ", ")},
				{"bufferMs", "integer", "0 to 5000: events of so long are sent as one batch"}},
			status: ok, stream: true, handle: (*Server).streamEvents},
		{method: get, path: "/v1/runs/{runId}/events/poll", name: "pollEvents", about: "A piece of a run's log, waited for if need be.",
			scope: identity.ScopeRunsRead, query: []param{{"lastSequence", "integer", "events after it; default -1, the beginning"},
				{"timeout", "integer", "seconds to wait for something new: 1 to 60, default 30"}},
			status: ok, out: pollReply{}, handle: (*Server).pollEvents},
		{method: post, path: "/v1/runs/{runId}/cancel", name: "cancelRun", about: "Ends a run at once; one that has ended stays as it is.",
			scope: identity.ScopeRunsCancel, once: true, status: ok, in: cancelRequest{}, out: cancelReply{}, handle: (*Server).cancelRun},
		{method: get, path: "/v1/workflows/{workflowId}", name: "getWorkflow", about: "A workflow's definition.", scope: identity.ScopeManifestRead,
			status: ok, out: anything{}, handle: (*Server).getWorkflow},

		{method: get, path: host + "/workflows", name: "listWorkflows", about: "What can be started.", scope: identity.ScopeManifestRead,
			status: ok, out: workflowList{}, handle: (*Server).listWorkflows},
		{method: get, path: host + "/runs/{runId}/steps", name: "listSteps", about: "Where each step of a run stands.", scope: identity.ScopeRunsRead,
			status: ok, out: stepList{}, handle: (*Server).listSteps},
		{method: get, path: host + "/runs/{runId}/late", name: "listLate", about: "Results that came after their step had ended.",
			scope: identity.ScopeRunsRead, status: ok, out: lateList{}, handle: (*Server).listLate},
		{method: get, path: host + "/runners", name: "listRunners", about: "The caller's runners.", scope: identity.ScopeRunnersRead,
			status: ok, out: runnerList{}, handle: (*Server).listRunners},
		{method: del, path: host + "/runners/{runnerId}", name: "revokeRunner", about: "Ends a runner for good.", scope: identity.ScopeRunnersManage,
			status: empty, handle: (*Server).revokeRunner},
		{method: get, path: host + "/pairings/{code}", name: "getPairing", about: "Which machine waits under a user code.",
			scope: identity.ScopeRunnersManage, status: ok, out: pairingReply{}, handle: (*Server).getPairing},
		{method: post, path: host + "/pairings/{code}/approve", name: "approvePairing", about: "Makes it one of the caller's runners.",
			scope: identity.ScopeRunnersManage, status: ok, in: nothing{}, out: pairingReply{}, handle: (*Server).approvePairing},
		{method: post, path: host + "/pairings/{code}/deny", name: "denyPairing", about: "Refuses it.", scope: identity.ScopeRunnersManage,
			status: ok, in: nothing{}, out: pairingReply{}, handle: (*Server).denyPairing},
		{method: get, path: host + "/asks", name: "listAsks", about: "What runners ask their owner.", scope: identity.ScopeRunsRead,
			status: ok, out: askList{}, handle: (*Server).listAsks},
		{method: post, path: host + "/asks/{askId}", name: "answerAsk", about: "Answers a question, once.", scope: identity.ScopeApprovalsRespond,
			status: ok, in: answerRequest{}, out: askLine{}, handle: (*Server).answerAsk},
		{method: get, path: host + "/audit", name: "listAudit", about: "The caller's audit log, oldest first.", scope: identity.ScopeRunnersRead,
			query: paging, status: ok, out: auditList{}, handle: (*Server).listAudit},
		{method: get, path: host + "/me", name: "me", about: "Who the credential belongs to.", status: ok, out: personReply{}, handle: (*Server).me},

		{method: post, path: host + "/sign-in", name: "signIn", about: "Trades a one-time token for the session's cookie.", guard: byNothing,
			status: ok, in: signInRequest{}, out: personReply{}, handle: (*Server).signIn},
		{method: post, path: host + "/sign-out", name: "signOut", about: "Ends the session.", guard: byCookie, status: empty, handle: (*Server).signOut},
		{method: post, path: host + "/bearer", name: "pageBearer", about: "Trades the session's cookie for a bearer of 15 minutes.",
			guard: byCookie, status: ok, out: bearerReply{}, handle: (*Server).pageBearer},
	}
}

// channelRoutes describes the routes that runners speak; package channel serves them, and a test compares the two lists.
func channelRoutes() []route {
	return []route{
		{method: http.MethodPost, path: host + "/pairings", name: "pair", about: "Begins the pairing of a runner (RFC 8628).", guard: byNothing,
			status: http.StatusCreated, in: wire.PairingRequest{}, out: wire.PairingReply{}},
		{method: http.MethodPost, path: host + "/tokens", name: "trade", about: "Trades a device code or a refresh token for a bearer.", guard: byNothing,
			status: http.StatusOK, in: wire.TokenRequest{}, out: wire.TokenReply{}},
		{method: http.MethodPut, path: host + "/runner", name: "register", about: "The registration record of a runner that connects.", guard: byRunner,
			status: http.StatusOK, in: wire.Registration{}, out: wire.Registered{}},
		{method: http.MethodDelete, path: host + "/runner", name: "logout", about: "Ends the runner that asks.", guard: byRunner, status: http.StatusNoContent},
		{method: http.MethodGet, path: host + "/dispatches", name: "dispatches", about: "The steps for a runner; Last-Event-ID resumes.", guard: byRunner,
			query:  []param{{"epoch", "integer", "what registering gave"}, {"maxMs", "integer", "ends the stream after so long"}},
			status: http.StatusOK, stream: true},
		{method: http.MethodPost, path: host + "/reports", name: "report", about: "How a runner stands; accepts, refuses, progress.", guard: byRunner,
			status: http.StatusOK, in: wire.Report{}, out: wire.ReportReply{}},
		{method: http.MethodPost, path: host + "/results", name: "results", about: "Results of steps: one frame or an array of them.", guard: byRunner,
			status: http.StatusOK, in: wire.Result{}, out: wire.Verdicts{}},
	}
}

// protected says whether a path is one that needs a credential whatever it names.
func protected(path string) bool { return path == "/v1" || strings.HasPrefix(path, "/v1/") }

// isSeam says whether a path is one of the protocol's test seams, of which there are none here.
func isSeam(path string) bool { return strings.HasPrefix(path, "/v1/host/sample/") }
