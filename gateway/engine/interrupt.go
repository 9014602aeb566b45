package engine

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/wire"
)

// The kinds of interrupt that nodes here ask for (wire 7.1).
const (
	KindApproval      = "approval"
	KindClarification = "clarification"
	KindExternalEvent = "external-event"
	KindCustom        = "custom"
)

// ProfileAuthRequired is the profile of an approval that a signed token alone does not answer (wire 7.2).
const ProfileAuthRequired = "openwop-interrupt-auth-required"

// What keeps a Resolve from its interrupt, beside a *wire.FieldError for a value that the interrupt does not take. The run is
// as it was.
var (
	ErrNoInterrupt        = errors.New("the node has no interrupt")
	ErrResolved           = errors.New("the interrupt has been resolved")
	ErrExpired            = errors.New("the interrupt has expired")
	ErrCancelledInterrupt = errors.New("the interrupt was cancelled with its run")
	ErrAuthRequired       = errors.New("the interrupt takes an answer only from a holder of approvals:respond")
	ErrNotApprover        = errors.New("the approval is up to others")
	ErrUntrustedAnswer    = errors.New("untrusted content may not resolve an interrupt")
)

// ReasonUntrusted is the protocol's word for ErrUntrustedAnswer (wire 7.3).
const ReasonUntrusted = "untrusted_content_blocks_approval"

// Refused reports whether Decide's error says that somebody asked for what cannot be. The state is as it was, and the run goes
// on; the error is for who asked.
func Refused(err error) bool {
	_, wrong := errors.AsType[*wire.FieldError](err)
	_, never := errors.AsType[*StateError](err)
	return wrong || never || slices.ContainsFunc([]error{
		ErrNoInterrupt, ErrResolved, ErrExpired, ErrCancelledInterrupt, ErrAuthRequired, ErrNotApprover, ErrUntrustedAnswer,
	}, func(known error) bool { return errors.Is(err, known) })
}

// An Interrupt is what a node waits for somebody to answer. Token and CallbackURL are for the caller to fill in (wire 7.4).
type Interrupt struct {
	NodeID       string          `json:"nodeId"`
	InterruptID  string          `json:"interruptId"`
	Kind         string          `json:"kind"`
	Key          string          `json:"key"`
	Data         json.RawMessage `json:"data"`
	Untrusted    bool            `json:"untrusted,omitzero"` // data holds what came from a step or from outside
	RequestedAt  time.Time       `json:"requestedAt"`
	ExpiresAt    *time.Time      `json:"expiresAt,omitzero"`
	AuthRequired bool            `json:"authRequired,omitzero"`
	Token        string          `json:"interruptToken,omitzero"`
	CallbackURL  string          `json:"callbackUrl,omitzero"`

	Request json.RawMessage `json:"-"` // the suspend request, as interrupt.requested has it
}

// A gate is an interrupt in a node's state.
type gate struct {
	n       int // counts the node's interrupts
	seq     int64
	at      time.Time
	state   gateState
	id      string
	key     string
	kind    string
	request json.RawMessage
	data    json.RawMessage
	timeout time.Duration
	foreign bool // data is untrusted
	auth    bool
	votes   []approvalReceived
	under   *gate // the approval that waits while an approver's question is open

	value   json.RawMessage // what resolved it
	by      string
	trusted bool
	resumed bool
}

type gateState uint8

const (
	gateOpen gateState = iota
	gateResolved
	gateExpired
	gateVoid
)

// status is what a run that waits for the interrupt is called. Only external events are external (the protocol's schema).
func (g *gate) status() string {
	switch g.kind {
	case KindApproval:
		return StatusWaitingApproval
	case KindExternalEvent:
		return StatusWaitingExternal
	}
	return StatusWaitingInput
}

func (g *gate) timer() string { return gateTimer + g.id }

// answered reports whether the node has an answer that it has not gone on with: the run was paused when it came.
func (n *nodeState) answered() bool {
	return n.phase == phaseNone && n.gate != nil && n.gate.over() && !n.gate.resumed
}

// over reports whether the node has been told what came of the interrupt.
func (g *gate) over() bool { return g.state == gateResolved || g.state == gateExpired }

// waiting is the node whose interrupt has been open for longest, -1 when none is.
func (s *State) waiting() int {
	first := -1
	if s.Terminal() {
		return first
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.phase == phaseSuspended && n.gate != nil && (first < 0 || n.gate.seq < s.nodes[first].gate.seq) {
			first = i
		}
	}
	return first
}

// Interrupts are those that wait for an answer, by node in the order of the run.
func Interrupts(s *State) []Interrupt {
	var open []Interrupt
	for _, i := range s.wf.order {
		if n := &s.nodes[i]; !s.Terminal() && n.phase == phaseSuspended && n.gate != nil {
			open = append(open, s.interruptOf(i, n.gate))
		}
	}
	return open
}

// FindInterrupt gives the interrupt that waits for an answer, by its node or by its id, or says why there is none: with the
// errors that Resolve has for it. Where both are given, both must fit.
func FindInterrupt(s *State, nodeID, interruptID string) (Interrupt, error) {
	i, g, err := s.interrupt(nodeID, interruptID)
	if err != nil {
		return Interrupt{}, err
	}
	return s.interruptOf(i, g), nil
}

func (s *State) interruptOf(i int, g *gate) Interrupt {
	in := Interrupt{
		NodeID: s.wf.nodes[i].id, InterruptID: g.id, Kind: g.kind, Key: g.key, Data: g.data, Untrusted: g.foreign, RequestedAt: g.at,
		AuthRequired: g.auth, Request: g.request,
	}
	if g.timeout > 0 {
		at := g.at.Add(g.timeout)
		in.ExpiresAt = &at
	}
	return in
}

const interruptMark = ":i"

func interruptID(node string, n int) string { return node + interruptMark + strconv.Itoa(n) }

// interrupt finds an open interrupt.
func (s *State) interrupt(nodeID, id string) (int, *gate, error) {
	n := 0
	if id != "" {
		at := strings.LastIndex(id, interruptMark)
		if at < 0 || nodeID != "" && nodeID != id[:at] {
			return 0, nil, ErrNoInterrupt
		}
		nodeID = id[:at]
		n, _ = strconv.Atoi(id[at+len(interruptMark):])
	}
	i, ok := s.wf.index[nodeID]
	if !ok || s.nodes[i].gate == nil || id != "" && interruptID(nodeID, n) != id || n < 0 || n > s.nodes[i].asks {
		return 0, nil, ErrNoInterrupt
	}
	g := s.nodes[i].gate
	for g.under != nil && n > 0 && n < g.n {
		g = g.under
	}
	switch {
	case n > 0 && n != g.n, g.state == gateResolved:
		return 0, nil, ErrResolved
	case g.state == gateExpired:
		return 0, nil, ErrExpired
	case g.state == gateVoid, s.Terminal():
		return 0, nil, ErrCancelledInterrupt
	case g.request == nil:
		return 0, nil, ErrNoInterrupt
	}
	return i, g, nil
}

// foldInterrupt applies the events of an interrupt to its node.
func (n *nodeState) foldInterrupt(e Event) error {
	if e.Type == TypeNodeSuspended {
		return n.foldSuspended(e)
	}
	if n.gate == nil {
		return errOrder
	}
	g := *n.gate
	switch e.Type {
	case TypeInterruptRequested:
		var p suspendRequest
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		g.request, g.data, g.timeout, g.foreign = e.Payload, p.Data, p.timeout(), e.ContentTrust != Trusted
		var d struct {
			Profile string `json:"profile"`
		}
		_ = decode(p.Data, &d) // what is not an object has no profile
		g.auth = d.Profile == ProfileAuthRequired
	case TypeApprovalReceived:
		var p approvalReceived
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		if p.votes() {
			g.votes = append(g.votes[:len(g.votes):len(g.votes)], p)
		}
	case TypeInterruptResolved:
		var p interruptResolved
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		g.state, g.value, g.by, g.trusted = gateResolved, p.ResumeValue, p.ResolvedBy, e.ContentTrust == Trusted
		if a, err := readApproval(p.ResumeValue); err == nil && g.kind == KindApproval && a.action == actionTimeout {
			g.state = gateExpired
		}
		n.phase = phaseNone
		if g.under != nil {
			n.gate, n.phase = g.under, phaseSuspended
			return nil
		}
	case TypeNodeResumed:
		g.resumed = true
	}
	n.gate = &g
	return nil
}

func (n *nodeState) foldSuspended(e Event) error {
	var p nodeSuspended
	if err := decode(e.Payload, &p); err != nil {
		return err
	}
	n.asks++
	g := &gate{n: n.asks, seq: e.Sequence, at: e.Timestamp, id: p.InterruptID, key: p.Key, kind: p.Kind}
	if n.phase == phaseSuspended {
		g.under = n.gate
	}
	n.gate, n.phase = g, phaseSuspended
	return nil
}

// closeGate ends what is open when its node ends.
func (n *nodeState) closeGate(status nodeStatus) {
	if n.gate == nil || n.gate.state != gateOpen {
		return
	}
	g := *n.gate
	g.state, g.under = gateVoid, nil
	if e := errorOf(n.payload); status == nodeFailedStatus && e != nil && e.Code == codeExpired {
		g.state = gateExpired
	}
	n.gate = &g
}
