package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/link"
)

// A PairConfig says how to pair a data folder with a gateway.
type PairConfig struct {
	Gateway     string
	Dir         string
	Name        string // shown to the person who approves
	Version     string // of the program
	Store       string // the kind of credential store, remembered for `run`
	Credentials link.Credentials
	Client      *http.Client
}

// A PairResult is what came of a pairing.
type PairResult struct {
	RunnerID string `json:"runnerId"`
	Subject  string `json:"subject"`
}

// Pair makes this data folder a runner of a gateway: it shows a code by onCode and waits until somebody approves it. When it
// fails nothing is changed; a code that nobody used expires by itself.
func Pair(ctx context.Context, cfg PairConfig, onCode func(wire.PairingReply)) (PairResult, error) {
	c, err := link.New(cfg.Gateway, cfg.Client, cfg.Credentials)
	if err != nil {
		return PairResult{}, err
	}
	tokens, err := c.Pair(ctx, wire.PairingRequest{Name: cfg.Name, Platform: platform(), Version: cfg.Version}, onCode)
	if err != nil {
		return PairResult{}, err
	}
	id := Identity{
		Gateway: cfg.Gateway, RunnerID: tokens.RunnerID, Subject: tokens.Subject, Name: cfg.Name, Store: cfg.Store, Paired: time.Now().UTC(),
	}
	if err := id.save(cfg.Dir); err != nil {
		return PairResult{}, err
	}
	return PairResult{RunnerID: id.RunnerID, Subject: id.Subject}, nil
}

// Logout gives up the runner of a data folder whose daemon does not run. See Runner.Logout for the other case.
func Logout(ctx context.Context, cfg PairConfig, force bool) error {
	id, err := LoadIdentity(cfg.Dir)
	if err != nil {
		return err
	}
	c, err := link.New(id.Gateway, cfg.Client, cfg.Credentials)
	if err != nil {
		return err
	}
	return logout(ctx, c, cfg.Credentials, cfg.Dir, force)
}

// ErrStillPaired says that a logout did nothing, because the gateway could not be told.
var ErrStillPaired = errors.New("the gateway could not be told, so nothing was changed; with --force the credentials are forgotten here all the same, and the runner must be revoked on the gateway's page")

func logout(ctx context.Context, c *link.Client, store link.Credentials, dir string, force bool) error {
	err := c.Revoke(ctx)
	if err != nil && !errors.Is(err, link.ErrUnpaired) && !force { // unpaired: revoked already
		return fmt.Errorf("log out: %w: %s", ErrStillPaired, c.Words(err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	names, err := store.List(ctx)
	for _, name := range []string{link.BearerName, link.RefreshName} {
		if slices.Contains(names, name) {
			err = errors.Join(err, store.Delete(ctx, name))
		}
	}
	if err != nil {
		return fmt.Errorf("log out: forget credentials: %w", err)
	}
	return forgetIdentity(dir)
}
