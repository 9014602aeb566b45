package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"runnerd/gateway/dispatch"
	"runnerd/internal/fault"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// maxResults is the largest body of a results request: one frame of the largest size, or several that are as large together,
// and what stands around them.
const maxResults = wire.MaxResult + 64<<10

func (s *Server) results(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	fault.Point("G09")
	body, err := httpapi.Decode[json.RawMessage](w, r, httpapi.MaxBytes(maxResults))
	if err != nil {
		return err
	}
	fault.Point("G10")
	frames, err := s.frames(body)
	if err != nil {
		return err
	}
	verdicts, err := s.dispatch.Results(r.Context(), who, frames)
	if err != nil {
		return err
	}
	fault.Point("G12")
	return httpapi.Encode(w, http.StatusOK, wire.Verdicts{Verdicts: verdicts})
}

// frames reads one frame or an array of them.
func (s *Server) frames(body []byte) ([]dispatch.Incoming, error) {
	one := bytes.TrimLeft(body, " \t\r\n")
	if len(one) > 0 && one[0] != '[' {
		in, err := s.frame(body)
		return []dispatch.Incoming{in}, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(body, &raws); err != nil {
		return nil, httpapi.Invalid("body", "must be a result frame or an array of them")
	}
	if len(raws) == 0 || len(raws) > wire.MaxResults {
		return nil, httpapi.Invalid("body", fmt.Sprintf("must hold 1 to %d frames", wire.MaxResults))
	}
	all := make([]dispatch.Incoming, len(raws))
	for i, raw := range raws {
		in, err := s.frame(raw)
		if f, ok := errors.AsType[*wire.FieldError](err); ok {
			return nil, httpapi.Invalid(fmt.Sprintf("[%d].%s", i, f.Field), f.Reason)
		}
		if err != nil {
			return nil, httpapi.Invalid(fmt.Sprintf("[%d]", i), "is not a result frame")
		}
		all[i] = in
	}
	return all, nil
}

// ident is what a frame must say for a verdict to be possible.
type ident struct{ wire.StepRef }

// frame reads a result frame. One that is not as it should be, and says which step it is about, is handed on without its
// output, to be refused: nothing else of it is kept or logged (wire 14.5).
func (s *Server) frame(raw []byte) (dispatch.Incoming, error) {
	in, err := wire.Decode[wire.Result](raw)
	var because wire.Code
	switch {
	case len(raw) > wire.MaxResult:
		because = wire.CodeResultTooLarge
	case err != nil:
		because = wire.CodeValidation
	case s.taint(raw):
		because = wire.CodePolicyDenied
	default:
		return dispatch.Incoming{Result: in}, nil
	}
	id, unidentified := wire.DecodeReply[ident](raw)
	if unidentified != nil {
		if err == nil {
			err = unidentified
		}
		return dispatch.Incoming{}, err
	}
	return dispatch.Incoming{Result: wire.Result{RunID: id.RunID, StepID: id.StepID, Seq: id.Seq}, Refuse: because}, nil
}
