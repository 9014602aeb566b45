package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
)

func TestS02NoFrameIsAcceptedWithoutRoomForALargestResult(t *testing.T) {
	largest := []byte(`{"text":"` + string(slices.Repeat([]byte("x"), wire.MaxResult-100)) + `"}`)
	for room := int64(1 << 20); room < 8<<20; room += 512 << 10 {
		d := newDisk()
		d.room = room
		j := newOpener(t).open(journal.Options{Disk: d})
		var taken []wire.StepRef
		for seq := int64(1); ; seq++ {
			f, b := frame(fmt.Sprint("s", seq), seq)
			err := j.Accept(f, b, seq)
			if errors.Is(err, journal.ErrNoRoom) {
				break
			}
			must(t, err)
			taken = append(taken, f.Ref())
		}
		if j.HasRoom() {
			t.Errorf("room %d: HasRoom, but a frame was refused", room)
		}
		for _, ref := range taken {
			must(t, j.Start(ref))
			if err := j.Finish(ref, journal.Hash{}, largest); err != nil {
				t.Fatalf("room %d: result of an accepted step was not stored: %v", room, err)
			}
		}
		for _, ref := range taken {
			must(t, j.Ack(ref, wire.VerdictAccepted))
		}
		d.room = 64 << 20
		if !j.HasRoom() {
			t.Errorf("room %d: did not recover when space returned", room)
		}
	}
}

func TestOutboxHasALargestSize(t *testing.T) {
	j := newOpener(t).open(journal.Options{MaxBytes: 4 << 20})
	out := slices.Repeat([]byte(" "), 900<<10)
	seq := int64(1)
	for ; ; seq++ {
		f, b := frame(fmt.Sprint("s", seq), seq)
		if err := j.Accept(f, b, seq); errors.Is(err, journal.ErrNoRoom) {
			break
		}
		must(t, j.Start(f.Ref()))
		must(t, j.Finish(f.Ref(), journal.Hash{}, out))
	}
	if seq < 3 || seq > 5 {
		t.Errorf("%d results of 900 KiB fit into 4 MiB", seq-1)
	}
}

func TestS03AfterAFailedSyncNothingIsAcknowledged(t *testing.T) {
	d := newDisk()
	j := newOpener(t).open(journal.Options{Disk: d})
	ref := accept(t, j, "s", 1)
	other := accept(t, j, "t", 2)
	d.failSync = 1
	if err := j.Start(ref); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, errDisk) {
		t.Fatalf("Start = %v, want ErrBroken with its reason", err)
	}
	for name, err := range map[string]error{"start": j.Start(other), "drop": j.Drop(other), "err": j.Err()} {
		if !errors.Is(err, journal.ErrBroken) {
			t.Errorf("%s after a failed sync: %v, want ErrBroken", name, err)
		}
	}
}

// image is a journal file with a step in every phase, and what must hold of whatever is left of it.
type image struct {
	bytes   []byte
	ran     []wire.StepRef // were started, at some time
	outputs map[string]string
	last    int // offset of the last record
}

func newImage(t *testing.T) image {
	t.Helper()
	o := newOpener(t)
	j := o.open(journal.Options{})
	im := image{outputs: map[string]string{}}
	for seq := int64(1); seq <= 6; seq++ {
		ref := accept(t, j, fmt.Sprint("s", seq), seq)
		if seq == 6 {
			break // only accepted
		}
		im.ran = append(im.ran, ref)
		must(t, j.Start(ref))
		if seq >= 4 {
			continue
		}
		im.outputs[ref.StepID] = fmt.Sprintf(`{"text":"output of %d"}`, seq)
		must(t, j.Finish(ref, journal.Hash{}, []byte(im.outputs[ref.StepID])))
		if seq == 1 {
			must(t, j.Ack(ref, wire.VerdictAccepted))
		}
	}
	before := read(t, o)
	ref := accept(t, j, "last", 9)
	im.bytes = read(t, o)
	im.bytes = im.bytes[:len(trimZeros(im.bytes))+200]
	im.last = len(trimZeros(before))
	must(t, j.Drop(ref))
	must(t, j.Close())
	return im
}

func read(t *testing.T, o opener) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(o.dir, "journal"))
	must(t, err)
	return b
}

func trimZeros(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// reopen opens a journal whose file has these bytes. The caller closes it.
func reopen(t *testing.T, dir string, b []byte) *journal.Journal {
	t.Helper()
	d := newDisk()
	d.files["journal"] = &memFile{disk: d, seen: slices.Clone(b)}
	j, err := journal.Open(dir, journal.Options{Disk: d, MaxResult: 1 << 10})
	must(t, err)
	return j
}

func TestS05TornLastRecordIsDroppedAtEveryByteOffset(t *testing.T) {
	im := newImage(t)
	dir := filepath.Join(t.TempDir(), "data")
	end := len(trimZeros(im.bytes))
	for cut := im.last; cut < end-1; cut++ { // without its last byte alone, the end mark, a record still checks
		zeroed := slices.Clone(im.bytes)
		clear(zeroed[cut:])
		for how, b := range map[string][]byte{"cut": im.bytes[:cut], "zeroed": zeroed} {
			j := reopen(t, dir, b)
			if n := j.Damage(); n != 0 {
				t.Fatalf("%s at %d: %d damaged ranges, want a torn tail", how, cut, n)
			}
			if s := j.Find("run_1", "last"); s.Phase != journal.None {
				t.Errorf("%s at %d: torn step is %v", how, cut, s.Phase)
			}
			if s := j.Find("run_1", "s6"); s.Phase != journal.Accepted {
				t.Errorf("%s at %d: step before the torn one is %v, want accepted", how, cut, s.Phase)
			}
			im.check(t, j, fmt.Sprintf("%s at %d", how, cut))
			accept(t, j, "last", 10) // what follows a torn tail is readable again
			must(t, j.Close())
		}
	}
}

func TestS06FlippedBitIsFoundAndNeverReRunsOrDeliversAWrongValue(t *testing.T) {
	im := newImage(t)
	dir := filepath.Join(t.TempDir(), "data")
	used := len(trimZeros(im.bytes))
	random := rand.New(rand.NewPCG(6, 6))
	for range 1000 {
		bit := random.IntN(used * 8)
		b := slices.Clone(im.bytes)
		b[bit/8] ^= 1 << (bit % 8)
		j := reopen(t, dir, b)
		for _, ref := range im.ran {
			switch s := j.Find("run_1", ref.StepID); {
			case s.Phase == journal.Accepted:
				t.Errorf("bit %d: %s could be started again", bit, ref.StepID)
			case s.Phase == journal.None:
				if _, unsure := j.Cursor(); !unsure {
					t.Errorf("bit %d: %s is forgotten, and the journal is sure of its cursor", bit, ref.StepID)
				}
			case s.Phase == journal.Finished:
				im.checkOutput(t, j, ref, fmt.Sprintf("bit %d", bit))
			}
		}
		must(t, j.Close())
	}
}

// A bit that flips while the journal is open is found when the result is read.
func TestS06FlippedBitInAWaitingResultIsNotDelivered(t *testing.T) {
	d := newDisk()
	j := newOpener(t).open(journal.Options{Disk: d})
	ref := accept(t, j, "s", 1)
	must(t, j.Finish(ref, journal.Hash{}, []byte(`{"text":"paid 10"}`)))
	f := d.files["journal"]
	for i := range f.seen {
		if string(f.seen[i:i+7]) == "paid 10" {
			f.seen[i+5] ^= 8
			break
		}
	}
	if out, err := j.Output(ref); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("output = %s, %v, want ErrDamaged", out, err)
	}
}

func TestDamagedFileIsKeptAside(t *testing.T) {
	im := newImage(t)
	o := newOpener(t)
	must(t, os.MkdirAll(o.dir, 0o700))
	b := slices.Clone(im.bytes)
	b[im.last-30] ^= 1
	must(t, os.WriteFile(filepath.Join(o.dir, "journal"), b, 0o600))
	j := o.open(journal.Options{})
	if j.Damage() != 1 {
		t.Errorf("%d damaged ranges, want 1", j.Damage())
	}
	kept, err := os.ReadFile(filepath.Join(o.dir, "journal.damaged"))
	if err != nil || !slices.Equal(kept, b) {
		t.Errorf("the damaged file was not kept as it was: %v", err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	o := newOpener(t)
	must(t, o.open(journal.Options{}).Close())
	must(t, os.WriteFile(filepath.Join(o.dir, "journal"), journal.HeaderOfVersion(99), 0o600))
	if _, err := journal.Open(o.dir, journal.Options{}); !errors.Is(err, journal.ErrNewer) {
		t.Errorf("Open = %v, want ErrNewer", err)
	}
}

// check tests what holds however the file was cut.
func (im image) check(t *testing.T, j *journal.Journal, when string) {
	t.Helper()
	for _, ref := range im.ran {
		s := j.Find("run_1", ref.StepID)
		if s.Phase != journal.Finished && s.Phase != journal.Settled {
			t.Errorf("%s: %s ran and is %v", when, ref.StepID, s.Phase)
		}
		if s.Phase == journal.Finished {
			im.checkOutput(t, j, ref, when)
		}
	}
}

func (im image) checkOutput(t *testing.T, j *journal.Journal, ref wire.StepRef, when string) {
	t.Helper()
	out, err := j.Output(ref)
	if err != nil {
		t.Errorf("%s: output of %s: %v", when, ref.StepID, err)
	} else if failure := wire.Failure(out); string(out) != im.outputs[ref.StepID] && (failure == nil || failure.Code != wire.CodeOutcomeUnknown) {
		t.Errorf("%s: output of %s is %s", when, ref.StepID, out)
	}
}
