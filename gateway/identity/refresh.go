package identity

import (
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// A presented refresh token leads to one of these.
type trade int

const (
	tradeRefuse  trade = iota // the family is revoked
	tradeIdle                 // nobody used the family for too long
	tradeReuse                // a generation before the last one presented: revoke
	tradeAgain                // the last one presented, once more
	tradeAdvance              // a later one: it becomes the last one presented
)

// judge decides what presenting generation g of r's family at time now means (design, section 4, "Tokens"), and when the
// bearer that answers it is dated.
func judge(r store.Runner, g int64, now time.Time) (t trade, issued time.Time) {
	switch {
	case !r.Revoked.IsZero():
		return tradeRefuse, time.Time{}
	case now.Sub(lastUsed(r)) > wire.RefreshIdle:
		return tradeIdle, time.Time{}
	case g < r.Generation || g < 1:
		return tradeReuse, time.Time{}
	case g == r.Generation && current(r.Used.Unix(), wire.BearerLife/2, now):
		return tradeAgain, r.Used
	case g == r.Generation:
		return tradeAgain, now
	}
	return tradeAdvance, now
}

func lastUsed(r store.Runner) time.Time {
	if r.Used.After(r.Created) {
		return r.Used
	}
	return r.Created
}
