// Package gateway is the host: it joins the store, the runs, the dispatch of their steps, the channel that runners speak, the
// API, the page and the administration socket, and it owns their life. The packages below it do the work; nothing here
// decides anything.
//
//	phone, client --> api, page --> run --> engine (pure)
//	                                 | ^
//	                                 v |
//	runner -------> channel -----> dispatch        all of them: store (truth), bus (bells), identity (who)
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"runnerd/gateway/admin"
	"runnerd/gateway/api"
	"runnerd/gateway/bus"
	"runnerd/gateway/channel"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/page"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/internal/redact"
)

// A Config is what a gateway is made of.
type Config struct {
	Store     store.Store
	Bus       bus.Bus
	Log       *slog.Logger
	Version   string
	PublicURL string // how people and runners reach it, without a path
	Seams     bool   // test seams: OPENWOP_TEST_SEAM_ENABLED
}

// A Gateway serves until its Run ends.
type Gateway struct {
	Identity *identity.Service
	Dispatch *dispatch.Service
	Runs     *run.Service
	Admin    *admin.Admin

	cfg     Config
	runners *channel.Server
	handler http.Handler
}

// New wires the parts. Nothing runs before Run.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	who, err := identity.New(ctx, cfg.Store, time.Now, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("start identity: %w", err)
	}
	g := &Gateway{Identity: who, cfg: cfg}
	g.Dispatch = dispatch.New(dispatch.Config{Store: cfg.Store, Bus: cfg.Bus, Log: cfg.Log, Taint: redact.HasTokenShape})
	g.Runs = run.New(run.Config{Store: cfg.Store, Dispatch: g.Dispatch, Log: cfg.Log})
	g.Admin = &admin.Admin{
		Store: cfg.Store, Identity: who, Now: time.Now, Version: cfg.Version, URL: cfg.PublicURL,
		Presence: func(_ context.Context, r store.Runner) string { return string(g.Dispatch.Presence(r).Status) },
	}
	g.runners = channel.New(channel.Config{
		Dispatch: g.Dispatch, Identity: who, Bus: cfg.Bus, Log: cfg.Log, Taint: redact.HasTokenShape,
		Page: func(*http.Request) string { return cfg.PublicURL + "/pair" },
	})
	files, err := page.Handler()
	if err != nil {
		return nil, err
	}
	server, err := api.New(api.Config{
		Store: g.Dispatch.Store(), Bus: cfg.Bus, Identity: who, Dispatch: g.Dispatch, Runs: g.Runs, Channel: g.runners, Page: files,
		Log: cfg.Log, Now: time.Now, Version: cfg.Version, PublicURL: cfg.PublicURL,
	})
	if err != nil {
		return nil, fmt.Errorf("start the API: %w", err)
	}
	g.handler = server.Handler()
	return g, nil
}

// Handler serves people, clients and runners.
func (g *Gateway) Handler() http.Handler { return g.handler }

const (
	stopWithin      = 10 * time.Second
	streamsEndAfter = 200 * time.Millisecond // a request in hand is answered, a stream would never end
	headersWithin   = 10 * time.Second
	requestWithin   = 2 * time.Minute // for a body that no handler reads, too; who reads one gives it less
	replyWithin     = 5 * time.Minute // from the end of the headers; streams give time to each write instead
	maxHeader       = 64 << 10
)

// Run serves people and runners on l, and administrators on socket (admin.Listen), until ctx ends. Streams end first, then
// requests in hand.
func (g *Gateway) Run(parent context.Context, l, socket net.Listener) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	if err := admin.RememberURL(ctx, g.cfg.Store, g.cfg.PublicURL); err != nil {
		return fmt.Errorf("remember the address: %w", err)
	}
	var wg sync.WaitGroup
	loop := func(name string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	loop("identity", func(ctx context.Context) error { return g.Identity.Run(ctx, g.cfg.Bus) })
	loop("sweeper", g.Dispatch.Sweeper().Run)
	loop("runners' streams", g.runners.Run)
	loop("serve", func(ctx context.Context) error { return serve(ctx, l, g.handler, g.cfg.Log) })
	loop("serve administrators", func(ctx context.Context) error {
		return serve(ctx, socket, admin.Handler(g.Admin, g.cfg.Log), g.cfg.Log)
	})
	<-ctx.Done()
	wg.Wait()
	if parent.Err() != nil {
		return nil // we were asked to stop
	}
	return context.Cause(ctx)
}

// serve answers on l until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	srv := &http.Server{
		Handler: unambiguous(h), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headersWithin, ReadTimeout: requestWithin, WriteTimeout: replyWithin, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		streams := time.AfterFunc(streamsEndAfter, end)
		defer streams.Stop()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		stopped <- srv.Shutdown(last)
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// unambiguous ends the connection after a request whose body came in chunks. Such a request may have told a length as well,
// which net/http drops without a word: whoever went by that one would take what follows for another request
// (RFC 9112 section 6.3).
func unambiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
