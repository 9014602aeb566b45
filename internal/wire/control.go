package wire

// The names of the events on a runner's stream. A dispatch carries the frame and its seq as id; a control event has no id
// and moves no cursor.
const (
	EventDispatch = "dispatch"
	EventControl  = "control"
)

// The reasons of a control event. The first asks for a report at once, because its answer has something for the runner; the
// others say why the gateway ends the stream.
const (
	ControlReport     = "report"
	ControlSuperseded = "superseded" // a newer connection of this runner has taken over
	ControlRevoked    = "revoked"
)

// A Control is the data of a control event.
type Control struct {
	Reason string `json:"reason"`
}

// Validate demands a reason. One that is not known is a newer gateway's: report, and see.
func (c Control) Validate() error { return checkName("reason", c.Reason, MaxID) }
