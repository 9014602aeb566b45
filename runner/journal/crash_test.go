package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
)

// promise is what the journal owes a step, whatever happens to the process or the power.
type promise struct {
	ref     wire.StepRef
	started bool   // Start returned nil: never again
	output  string // Finish returned nil: kept until acknowledged
	acked   bool
}

// Whatever is done, and wherever the power goes, no step could be started twice and no result is lost.
func TestCrashNeverGivesASecondStartNorLosesAResult(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	rapid.Check(t, func(t *rapid.T) {
		disk := newDisk()
		opts := journal.Options{Disk: disk, Compact: 2 << 10, MaxResult: 2 << 10}
		j, err := journal.Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { j.Close() }()
		owed := map[string]*promise{}
		seq := int64(0)
		steps := func(ok func(p *promise) bool) (list []string) {
			for name, p := range owed {
				if ok(p) {
					list = append(list, name)
				}
			}
			slices.Sort(list)
			return list
		}
		reopen := func(t *rapid.T, after *memDisk) {
			j.Close()
			disk, opts.Disk = after, after
			if j, err = journal.Open(dir, opts); err != nil {
				t.Fatalf("open after a crash: %v", err)
			}
			for name, p := range owed {
				p.check(t, j, name)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(t *rapid.T) {
				name := fmt.Sprint("s", rapid.IntRange(0, 9).Draw(t, "step"))
				seq++
				d, b := frame(name, seq)
				p := owed[name]
				if err := j.Accept(d, b, seq); err != nil {
					if p == nil && j.Find("run_1", name).Phase < journal.Finished {
						t.Fatalf("a step that is nowhere was refused: %v", err)
					}
					return // known; or its dropping was lost with the power, and it counts as started
				}
				if p != nil && (p.started || p.output != "") {
					t.Fatalf("%s was accepted again after it started", name)
				}
				owed[name] = &promise{ref: d.Ref()}
			},
			"start": func(t *rapid.T) {
				name := draw(t, steps(func(p *promise) bool { return !p.started }))
				if j.Start(owed[name].ref) == nil {
					owed[name].started = true
				}
			},
			"finish": func(t *rapid.T) {
				name := draw(t, steps(func(p *promise) bool { return p.started && p.output == "" }))
				out := fmt.Sprintf(`{"text":%q}`, rapid.StringN(0, 300, -1).Draw(t, "text"))
				if j.Finish(owed[name].ref, journal.Hash{}, []byte(out)) == nil {
					owed[name].output = out
				}
			},
			"ack": func(t *rapid.T) {
				name := draw(t, steps(func(p *promise) bool { return p.output != "" && !p.acked }))
				if err := j.Ack(owed[name].ref, wire.VerdictAccepted); err != nil {
					t.Fatal(err)
				}
				owed[name].acked = true
			},
			"drop": func(t *rapid.T) {
				name := draw(t, steps(func(p *promise) bool { return !p.started }))
				if j.Drop(owed[name].ref) == nil {
					delete(owed, name)
				}
			},
			"killed": func(t *rapid.T) { reopen(t, disk.kill()) },
			"power lost, a prefix arrived": func(t *rapid.T) {
				whole, part := rapid.IntRange(0, 8).Draw(t, "writes"), rapid.IntRange(0, 8).Draw(t, "sectors")
				reopen(t, disk.crash(func(_ string, w, sector int) bool { return w > whole || w == whole && sector > part }))
			},
			"power lost, anything arrived": func(t *rapid.T) {
				lost := rapid.SliceOfN(rapid.Bool(), 16, 16).Draw(t, "lost")
				reopen(t, disk.crash(func(_ string, w, sector int) bool { return lost[(7*w+sector)%len(lost)] }))
			},
			"": func(t *rapid.T) {
				for name, p := range owed {
					p.check(t, j, name)
				}
			},
		})
	})
}

func draw(t *rapid.T, names []string) string {
	if len(names) == 0 {
		t.Skip("no step is there yet")
	}
	return rapid.SampledFrom(names).Draw(t, "step")
}

func (p *promise) check(t *rapid.T, j *journal.Journal, name string) {
	s := j.Find("run_1", name)
	if p.started && s.Phase < journal.Started {
		t.Fatalf("%s was started and is now %v: it could be started again", name, s.Phase)
	}
	if p.output == "" || p.acked && s.Phase == journal.Settled {
		if p.started && s.Phase == journal.Finished && p.output == "" { // closed by Open
			p.output = string(closed(t, j, p))
		}
		return
	}
	out, err := j.Output(p.ref)
	if err != nil || string(out) != p.output {
		t.Fatalf("result of %s is %s, %v, want %s", name, out, err, p.output)
	}
	p.acked = false // a lost acknowledgement costs a second POST
}

func closed(t *rapid.T, j *journal.Journal, p *promise) []byte {
	out, err := j.Output(p.ref)
	if err != nil {
		t.Fatal(err)
	}
	if failure := wire.Failure(out); failure == nil || failure.Code != wire.CodeOutcomeUnknown {
		t.Fatalf("a step that nobody saw the end of has the result %s", out)
	}
	return out
}

// However the bytes of a file are, it opens or is refused, nothing panics, and what was opened reads back the same.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 100))
	f.Add(journal.HeaderOfVersion(1))
	f.Add(append(journal.HeaderOfVersion(1), journal.RecordsOfEveryKind()...))
	dir := filepath.Join(f.TempDir(), "data")
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDisk()
		d.files["journal"] = &memFile{disk: d, seen: slices.Clone(b)}
		j, err := journal.Open(dir, journal.Options{Disk: d, MaxResult: 1 << 10})
		if err != nil {
			return
		}
		first := j.Held()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j, err = journal.Open(dir, journal.Options{Disk: d})
		if err != nil {
			t.Fatalf("opened once, then: %v", err)
		}
		defer j.Close()
		if again := j.Held(); !slices.Equal(first, again) {
			t.Fatalf("held %v, then %v", first, again)
		}
		if j.Damage() != 0 {
			t.Errorf("damage is found again after it was set aside")
		}
		accept(t, j, "a step that no input names", 1)
	})
}

// BenchmarkStep is what a step costs on the disk: accepted (written), started and finished (synced each), acknowledged.
func BenchmarkStep(b *testing.B) {
	j := newOpener(b).open(journal.Options{})
	output := fmt.Appendf(nil, `{"text":%q}`, make([]byte, 128))
	b.ReportAllocs()
	for seq := int64(1); b.Loop(); seq++ {
		ref := accept(b, j, fmt.Sprint("s", seq), seq)
		must(b, j.Start(ref))
		must(b, j.Finish(ref, journal.Hash{}, output))
		must(b, j.Ack(ref, wire.VerdictAccepted))
	}
	b.ReportMetric(2, "syncs/op")
}
