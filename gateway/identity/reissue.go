package identity

import (
	"context"
	"fmt"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// Reissue gives new tokens to a runner that the subject has paired and whose own store did not keep them, as the one inside
// `gateway dev` which keeps nothing. The caller has the gateway's own rights: no route leads here. It refuses a revoked
// runner with ErrRevoked.
func (s *Service) Reissue(ctx context.Context, subject store.Subject, id store.RunnerID) (wire.TokenReply, error) {
	var out wire.TokenReply
	now := s.now()
	err := s.store.Update(ctx, func(tx store.Tx) error {
		r, err := tx.Runner(subject, id)
		if err != nil {
			return err
		}
		if !r.Revoked.IsZero() {
			return ErrRevoked
		}
		out = s.reply(r, r.Generation+1, now, now)
		return tx.MoveFamily(id, r.Generation, r.Generation, now)
	})
	if err != nil {
		return wire.TokenReply{}, fmt.Errorf("reissue the tokens of %s: %w", id, err)
	}
	return out, nil
}
