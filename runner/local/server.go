package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"runnerd/internal/httpapi"
)

// A Controller is what the socket gives access to: a running runner.
type Controller interface {
	Status() Status
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	Drain(ctx context.Context) error
	Reload(ctx context.Context) error // look at the providers anew
	// Logout gives up the runner's right at the gateway and forgets its credentials. Without force it does neither when the
	// gateway cannot be reached.
	Logout(ctx context.Context, force bool) error
}

// within is how long a call may take, on either side.
const within = 5 * time.Second

type nothing struct{}

type logoutRequest struct {
	Force bool `json:"force"`
}

// Serve answers on the listener until ctx ends, and closes it.
func Serve(ctx context.Context, l net.Listener, c Controller, log *slog.Logger) error {
	mux := http.NewServeMux()
	handle := func(pattern string, h httpapi.Handler) { mux.Handle(pattern, httpapi.Wrap(log, problem, h)) }
	handle("GET /status", func(w http.ResponseWriter, _ *http.Request) error {
		return httpapi.Encode(w, http.StatusOK, c.Status())
	})
	command := func(name string, do func(context.Context) error) {
		handle("POST /"+name, func(w http.ResponseWriter, r *http.Request) error {
			if _, err := httpapi.Decode[nothing](w, r, httpapi.Optional()); err != nil {
				return err
			}
			return done(w, do(r.Context()))
		})
	}
	command("pause", c.Pause)
	command("resume", c.Resume)
	command("drain", c.Drain)
	command("reload", c.Reload)
	handle("POST /logout", func(w http.ResponseWriter, r *http.Request) error {
		in, err := httpapi.Decode[logoutRequest](w, r, httpapi.Optional())
		if err != nil {
			return err
		}
		return done(w, c.Logout(r.Context(), in.Force))
	})
	server := &http.Server{
		Handler: http.TimeoutHandler(httpapi.Routes(mux), within, ""), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadTimeout: within, WriteTimeout: 2 * within, MaxHeaderBytes: 16 << 10,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for the answer to a logout
		defer cancel()
		if server.Shutdown(end) != nil {
			server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve local socket: %w", err)
}

func done(w http.ResponseWriter, err error) error {
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// problem lets the owner see why a command was not carried out.
func problem(err error) *httpapi.Problem {
	return &httpapi.Problem{Status: http.StatusConflict, Code: "refused", Message: err.Error(), Cause: err}
}
