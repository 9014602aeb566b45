package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"runnerd/gateway/admin"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/egress"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/keyring"
	"runnerd/runner"
	"runnerd/runner/link"
	"runnerd/runner/local"
	"runnerd/runner/process"
	"runnerd/runner/provider/catalog"
	"runnerd/runner/provider/openaiapi"
)

// startRunner starts the real runner in this process, over the real channel. online is closed when the gateway sees it.
func (c *devCommand) startRunner(ctx context.Context, w *world, s *serving, wg *sync.WaitGroup) (online <-chan struct{}, err error) {
	if err := process.Harden(); err != nil {
		return nil, fmt.Errorf("close this process to others: %w", err)
	}
	dir, mask := s.runnerDir(), &redact.Set{}
	vault := runner.NewVault(keyring.NewMemory(), mask) // its tokens are made anew at each start
	client := egress.Configured(egress.Options{HTTP1: true})
	who, err := s.pairRunner(ctx, dir, vault, client)
	if err != nil {
		return nil, err
	}
	providers, err := catalog.Open(catalog.Config{
		File: filepath.Join(dir, "providers.json"), Environ: w.environ, Log: s.log,
		Client:   egress.Configured(egress.Options{HeadersWithin: openaiapi.Cold}),
		Endpoint: w.getenv("RUNNERD_OPENAI_BASE_URL"), Ollama: w.getenv("RUNNERD_OLLAMA_URL"),
		Key: func(ctx context.Context, name string) (redact.Secret, error) {
			key, err := vault.Get(ctx, "provider."+name)
			if errors.Is(err, keyring.ErrNotFound) {
				return redact.Secret{}, nil
			}
			return key, err
		},
	})
	if err != nil {
		return nil, err
	}
	r, err := runner.New(runner.Config{
		Dir: dir, Credentials: vault, Client: client, Providers: runner.Catalog(providers), Mask: mask, Version: programVersion(), Log: s.log,
		Control: func(dir string) (net.Listener, error) { return local.Listen(dir, s.log) },
	})
	if err != nil {
		return nil, err
	}
	wg.Go(func() {
		if err := r.Run(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("the runner stopped", "err", err)
		}
	})
	seen := make(chan struct{})
	wg.Go(func() { s.awaitOnline(ctx, who, seen) })
	return seen, nil
}

// pairRunner gives the runner its tokens: by pairing it, the first time, else by asking the gateway, which is this process.
func (s *serving) pairRunner(ctx context.Context, dir string, vault *runner.Vault, client *http.Client) (store.Runner, error) {
	none := store.Runner{}
	me, err := store.NewSubject(identity.DefaultTenant, "", devUser)
	if err != nil {
		return none, err
	}
	known, err := runner.LoadIdentity(dir)
	if err == nil {
		tokens, err := s.gateway.Identity.Reissue(ctx, me, store.RunnerID(known.RunnerID))
		if err == nil {
			return store.Runner{ID: store.RunnerID(known.RunnerID), Subject: me}, errors.Join(
				runner.Readdress(dir, s.local),
				vault.Set(ctx, link.RefreshName, redact.New(tokens.RefreshToken)),
				vault.Set(ctx, link.BearerName, redact.New(tokens.AccessToken)),
			)
		}
		if !errors.Is(err, identity.ErrRevoked) && !errors.Is(err, store.ErrNotFound) {
			return none, err
		}
	} else if !errors.Is(err, runner.ErrNotPaired) {
		return none, err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "this machine"
	}
	var approved error
	got, err := runner.Pair(ctx, runner.PairConfig{
		Gateway: s.local, Dir: dir, Name: name, Version: programVersion(), Store: "memory", Credentials: vault, Client: client,
	}, func(code wire.PairingReply) {
		_, approved = s.gateway.Admin.ApproveRunner(ctx, admin.Approval{User: devUser, Code: code.UserCode})
	})
	if err = errors.Join(approved, err); err != nil {
		return none, fmt.Errorf("pair: %w", err)
	}
	return store.Runner{ID: store.RunnerID(got.RunnerID), Subject: me}, nil
}

// awaitOnline closes seen when the matcher would give the runner work.
func (s *serving) awaitOnline(ctx context.Context, who store.Runner, seen chan<- struct{}) {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if p := s.gateway.Dispatch.Presence(who); p.Status == dispatch.Online && p.Dispatchable {
			close(seen)
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}
