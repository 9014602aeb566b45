package journal

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"runnerd/internal/wire"
)

// What callers act on.
var (
	ErrInUse       = errors.New("another runner uses this data folder")
	ErrPermissions = errors.New("data folder is not private")
	ErrNoRoom      = errors.New("no room on the disk for a result")
	ErrDamaged     = errors.New("journal is damaged")
	ErrBroken      = errors.New("journal failed to write; nothing can be promised until a restart")
	ErrWrongPhase  = errors.New("step is not in the right phase")
	ErrNewer       = errors.New("journal was written by a newer version")
)

const (
	version    = 1
	fileName   = "journal"
	newName    = "journal.new"
	hurtName   = "journal.damaged"
	otherName  = "journal.other" // of the identity that was paired before
	maxSettled = 50_000          // steps that are remembered after their verdict; older ones are behind the cursor anyway
	slack      = 8 << 10         // bytes that a record needs beside its body, with room to spare
	grow       = 256 << 10       // the file grows in steps of this size, so that few writes pay for it
)

// Options are what a journal needs to know. The zero value is good.
type Options struct {
	Owner     string           // whose journal it is; one of another owner is set aside, never delivered
	MaxResult int64            // bytes of the largest output; wire.MaxResult if 0
	MaxBytes  int64            // most bytes of results and frames that wait; 256 MiB if 0
	Compact   int64            // bytes of log at which what is over is left behind; 4 MiB if 0
	Now       func() time.Time // for retention; time.Now if nil
	Disk      Disk             // dir if nil
}

// A Step is what the journal knows of one.
type Step struct {
	wire.StepRef
	Phase Phase
	Hash  Hash
	At    time.Time // of the last change
}

type step struct {
	Step
	body span // the frame while accepted, the output when finished
}

type pair struct{ run, step string }

// settled is a step whose verdict came; kept small, since there may be many.
type settled struct {
	hash Hash
	seq  int64
	at   int64 // Unix milliseconds
}

// A Journal is safe for use by many goroutines.
type Journal struct {
	opts   Options
	disk   Disk
	unlock func() error

	mu      sync.Mutex
	cond    sync.Cond // syncing ended
	f       File
	id      string
	held    map[pair]*step
	settled map[Hash]settled
	cursor  int64
	unsure  bool  // the cursor may be too low: the file is new or was damaged
	damages int   // ranges that did not check when the file was opened
	tail    int64 // where the next record goes
	size    int64 // allocated and zero behind tail
	synced  int64 // tail at the last sync
	syncing bool
	broken  error
}

// Open opens the journal of a data folder, which it makes when there is none, and closes every step that was started and
// has no result with outcome_unknown.
func Open(dir string, opts Options) (*Journal, error) {
	j := &Journal{opts: opts, disk: opts.Disk, held: map[pair]*step{}, settled: map[Hash]settled{}}
	j.cond.L = &j.mu
	if j.opts.Now == nil {
		j.opts.Now = time.Now
	}
	j.opts.MaxResult = cmp.Or(j.opts.MaxResult, wire.MaxResult)
	j.opts.MaxBytes = cmp.Or(j.opts.MaxBytes, 256<<20)
	j.opts.Compact = cmp.Or(j.opts.Compact, 4<<20)
	if j.disk == nil {
		j.disk = folder(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if err := checkFolder(dir); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.unlock = unlock
	if err := j.open(); err != nil {
		if j.f != nil {
			err = errors.Join(err, j.f.Close())
		}
		return nil, fmt.Errorf("open journal: %w", errors.Join(err, unlock()))
	}
	return j, nil
}

func (j *Journal) open() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.load(); err != nil {
		return err
	}
	for _, s := range j.held {
		if s.Phase == Started {
			if err := j.write(kindFinished, j.about(s.StepRef, s.Hash), unknown()); err != nil {
				return err
			}
		}
	}
	return j.sync(j.tail)
}

// load reads the file and leaves it ready for writing: zeros behind the tail, a header in front.
func (j *Journal) load() error {
	f, err := j.disk.Open(fileName)
	if err != nil {
		return err
	}
	j.f = f
	if j.size, err = f.Size(); err != nil {
		return err
	}
	l := loader{Journal: j}
	end, torn, err := scan(f, j.size, &l)
	if err != nil {
		return err
	}
	j.tail, j.synced = end, end
	j.unsure = j.unsure || j.id == "" || j.damages > 0
	switch {
	case j.id == "" && end == 0 && !torn:
		return j.replace("")
	case l.other:
		return j.replace(otherName)
	case j.id == "":
		return j.replace(hurtName)
	case j.damages > 0:
		if j.replace(hurtName) == nil {
			return nil
		}
		j.tail, j.synced = end, end // no room to tidy up: go on behind the damage
	case torn:
		return j.clear(end)
	}
	return nil
}

// loader folds the records of a file into a journal.
type loader struct {
	*Journal
	other bool // the file is of another owner, or does not say of whom: nothing of it is taken
}

func (l *loader) damage(span) {
	l.damages++
	for _, s := range l.held {
		if s.Phase == Accepted {
			s.Phase = Started // its start may be what was lost
		}
	}
}

func (l *loader) record(r record) error {
	if r.kind == kindHeader {
		if r.meta.Version > version {
			return fmt.Errorf("%w: format %d, this program knows %d", ErrNewer, r.meta.Version, version)
		}
		if l.other = r.meta.Owner != l.opts.Owner; !l.other {
			l.id, l.unsure = r.meta.ID, r.meta.Unsure
		}
		return nil
	}
	if l.id != "" && !l.other {
		l.fold(r)
	}
	return nil
}

// fold applies a record that was read.
func (j *Journal) fold(r record) {
	j.cursor = max(j.cursor, r.meta.Cursor)
	if r.kind == kindCursor {
		j.unsure = false
	}
	if r.kind == kindSettled {
		j.settled[parseHash(r.meta.Key)] = settled{hash: parseHash(r.meta.Hash), seq: r.meta.Seq, at: r.meta.At}
		return
	}
	if r.meta.Run == "" {
		return
	}
	was, _ := j.find(r.meta.Run, r.meta.Step)
	if to, ok := recovered(was.Phase, was.Seq, r.kind, r.meta.Seq); ok {
		j.apply(to, r)
	}
}

// apply makes a record's step what the record says. The transition was checked.
func (j *Journal) apply(to Phase, r record) {
	at := pair{r.meta.Run, r.meta.Step}
	hash := parseHash(r.meta.Hash)
	if to == None || to == Settled {
		if s := j.held[at]; s != nil && hash == (Hash{}) {
			hash = s.Hash
		}
		delete(j.held, at)
		if to == Settled {
			j.settled[keyOf(at.run, at.step)] = settled{hash: hash, seq: r.meta.Seq, at: r.meta.At}
		}
		return
	}
	s := j.held[at]
	if s == nil {
		s = &step{}
		j.held[at] = s
	}
	if hash != (Hash{}) {
		s.Hash = hash
	}
	s.StepRef = wire.StepRef{RunID: at.run, StepID: at.step, Seq: r.meta.Seq}
	s.Phase, s.At, s.body = to, time.UnixMilli(r.meta.At), r.body
}

// find is the step as it stands, None when nothing is known of it.
func (j *Journal) find(run, name string) (Step, bool) {
	if s := j.held[pair{run, name}]; s != nil {
		return s.Step, true
	}
	if s, ok := j.settled[keyOf(run, name)]; ok {
		ref := wire.StepRef{RunID: run, StepID: name, Seq: s.seq}
		return Step{StepRef: ref, Phase: Settled, Hash: s.hash, At: time.UnixMilli(s.at)}, true
	}
	return Step{}, false
}

func (j *Journal) about(ref wire.StepRef, h Hash) meta {
	return meta{Run: ref.RunID, Step: ref.StepID, Seq: ref.Seq, Hash: h.text(), Cursor: j.cursor, At: j.opts.Now().UnixMilli()}
}

// unknown is the output of a step that was started and whose end nobody saw.
func unknown() []byte {
	out, err := json.Marshal(wire.Failed(wire.CodeOutcomeUnknown,
		"the runner stopped while this step was running; whether it took effect is not known"))
	if err != nil {
		panic(err) // a constant
	}
	return out
}

func newID() string { return "jrn_" + rand.Text() }

// Close ends the journal and lets another process open it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.cond.Wait()
	}
	if j.unlock == nil {
		return nil
	}
	if j.broken == nil {
		j.broken = os.ErrClosed
	}
	err := j.unlock()
	if j.f != nil {
		err = errors.Join(j.f.Close(), err)
	}
	j.unlock = nil
	return err
}
