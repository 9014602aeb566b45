package engine

import (
	"math"
	"time"
)

// A retryPolicy says how often a step that no runner started is put back into the queue, and after how long. It is about
// nothing else: what may have cost money is never done again by itself (design, section 5).
type retryPolicy struct {
	max         int // -1: as the workflow's settings say
	first, most time.Duration
}

// The bounds of a policy, whatever a definition asks for.
const (
	maxRetries    = 10
	retryFirst    = time.Second
	retryMost     = 30 * time.Second
	maxRetryDelay = time.Minute
)

// readPolicy takes settings.maxRetries of a node, else its config.retry, whose members are those of the published HTTP nodes.
func readPolicy(n object) retryPolicy {
	p := retryPolicy{max: -1, first: retryFirst, most: retryMost}
	var config struct {
		Retry struct {
			MaxAttempts    *int   `json:"maxAttempts"`
			InitialDelayMs *int64 `json:"initialDelayMs"`
			MaxDelayMs     *int64 `json:"maxDelayMs"`
		} `json:"retry"`
	}
	if decode(n.members["config"], &config) == nil { // what the node's own type means by retry may look otherwise
		if r := config.Retry; r.MaxAttempts != nil {
			p.max = *r.MaxAttempts - 1
		}
		p.first, p.most = delay(config.Retry.InitialDelayMs, p.first), delay(config.Retry.MaxDelayMs, p.most)
	}
	if settings := n.child("settings"); settings.has("maxRetries") {
		p.max = int(settings.whole("maxRetries", 0, math.MaxInt32))
	}
	return p
}

func delay(ms *int64, or time.Duration) time.Duration {
	if ms == nil {
		return or
	}
	return time.Duration(min(max(*ms, 0), maxRetryDelay.Milliseconds())) * time.Millisecond
}

// next says whether another attempt follows the attempts made, and after how long: the first delay, doubled each time.
func (p retryPolicy) next(attempts, workflowMax int) (time.Duration, bool) {
	limit := p.max
	if limit < 0 {
		limit = workflowMax
	}
	if attempts > min(limit, maxRetries) {
		return 0, false
	}
	return min(p.first<<min(attempts-1, maxRetries), p.most), true
}
