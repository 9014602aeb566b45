//go:build unix

package process_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"runnerd/runner/process"
)

func sh(script string) process.Spec {
	return process.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: process.Env(os.Environ(), nil)}
}

func run(ctx context.Context, t *testing.T, spec process.Spec) (process.End, []string, error) {
	t.Helper()
	var lines []string
	if spec.Line == nil {
		spec.Line = func(b []byte) { lines = append(lines, string(b)) }
	}
	end, err := process.Run(ctx, spec)
	return end, lines, err
}

// gone fails the test when a process whose command line holds the word is alive.
func gone(t *testing.T, word string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		out, _ := exec.Command("pgrep", "-f", word).Output()
		if len(bytes.TrimSpace(out)) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %s", out)
		}
	}
}

func TestUD48_ExitCodeAndSignalAreKept(t *testing.T) {
	end, lines, err := run(t.Context(), t, sh(`echo out; echo err >&2; exit 7`))
	if err != nil || end.Code != 7 || !slices.Equal(lines, []string{"out"}) || end.Stderr != "err\n" {
		t.Errorf("end %+v, err %v, lines %q", end, err, lines)
	}
	end, _, err = run(t.Context(), t, sh(`kill -9 $$`))
	if err != nil || end.Signal != "SIGKILL" {
		t.Errorf("end %+v, err %v", end, err)
	}
}

func TestUD40_StandardInputIsWrittenAndClosed(t *testing.T) {
	spec := sh(`wc -c`)
	spec.Stdin = bytes.Repeat([]byte("x"), 1<<20)
	end, lines, err := run(t.Context(), t, spec)
	if err != nil || end.Code != 0 || strings.TrimSpace(lines[0]) != "1048576" {
		t.Errorf("end %+v, err %v, lines %q", end, err, lines)
	}
}

func TestK06_AChildThatNeverReadsItsInputDoesNotBlock(t *testing.T) {
	spec := sh(`exec sleep 0.1`)
	spec.Stdin = bytes.Repeat([]byte("x"), 10<<20)
	if end, _, err := run(t.Context(), t, spec); err != nil || end.Code != 0 {
		t.Errorf("end %+v, err %v", end, err)
	}
}

func TestK01_UD34_AGrandchildThatHoldsTheOutputDelaysNothing(t *testing.T) {
	begin := time.Now()
	if end, _, err := run(t.Context(), t, sh(`sleep 4711 & exit 0`)); err != nil || end.Code != 0 {
		t.Errorf("end %+v, err %v", end, err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	gone(t, "sleep 4711")
}

func TestK02_AChildThatIgnoresTermIsKilled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled by the owner")
	spec := sh(`trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	spec.Line = func([]byte) { cancel(why) }
	if _, err := process.Run(ctx, spec); !errors.Is(err, why) {
		t.Errorf("err = %v, want the cause", err)
	}
}

func TestK03_AGrandchildInASessionOfItsOwnIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	if _, _, err := run(t.Context(), t, sh(`setsid sleep 4712 >/dev/null 2>&1 & sleep 0.2`)); err != nil {
		t.Error(err)
	}
	gone(t, "sleep 4712")
}

func TestUD33_AForkStormThatIgnoresTermLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, context.DeadlineExceeded)
	defer cancel()
	storm := `trap '' TERM; i=0; while [ $i -lt 30 ]; do (trap '' TERM; while :; do sleep 47.13; done) & i=$((i+1)); done; wait`
	if _, _, err := run(ctx, t, sh(storm)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	gone(t, "sleep 47.13")
}

func TestUD41_AChildThatFallsSilentIsStalled(t *testing.T) {
	spec := sh(`echo one; sleep 60`)
	spec.Stall = 300 * time.Millisecond
	end, lines, err := run(t.Context(), t, spec)
	if !errors.Is(err, process.ErrStalled) || len(lines) != 1 || end.Stdout != "one\n" {
		t.Errorf("end %+v, err %v, lines %q", end, err, lines)
	}
}

func TestUD89_AHundredMebibytesInOneLineAreCutInBoundedMemory(t *testing.T) {
	spec := sh(`head -c 104857600 /dev/zero | tr '\0' x; echo; echo tail`)
	spec.MaxLine = 1 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var lengths []int
	spec.Line = func(b []byte) { lengths = append(lengths, len(b)) }
	end, err := process.Run(t.Context(), spec)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || !slices.Equal(lengths, []int{1 << 20, 4}) || end.Cut != 100<<20-1<<20 {
		t.Errorf("end %+v, err %v, lengths %v", end, err, lengths)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}

func TestUD47_WhatCannotBeStartedSaysSo(t *testing.T) {
	spec := sh("")
	spec.Path = "/nowhere/claude"
	if _, err := process.Run(t.Context(), spec); !errors.Is(err, process.ErrSpawn) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}

func TestUD62_KeysAndDisplaysAreNotInherited(t *testing.T) {
	env := process.Env([]string{
		"PATH=/bin", "ANTHROPIC_API_KEY=x", "OPENAI_API_KEY=y", "DISPLAY=:0", "SSH_AUTH_SOCK=/s", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=z",
	}, map[string]string{"CLAUDE_X": "1"})
	want := []string{"BROWSER=false", "CLAUDE_X=1", "LC_ALL=C", "NO_COLOR=1", "PATH=/bin", "TERM=dumb"}
	if !slices.Equal(env, want) {
		t.Errorf("got %q, want %q", env, want)
	}
}

func TestFiftyStepsLeaveNoGoroutineAndNoProcess(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 50 {
		if _, _, err := run(t.Context(), t, sh(`(sleep 47.14 &) ; exit 0`)); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, "sleep 47.14")
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
