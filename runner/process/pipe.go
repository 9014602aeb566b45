package process

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// pipes are our ends of a child's standard streams.
type pipes struct {
	ours []*os.File
	wg   sync.WaitGroup
}

// open starts the child with its streams connected: stdin is written from a goroutine and closed, so that a child which
// never reads it cannot block us (K06), nor one that reads it to the end (UD-40).
func open(cmd *exec.Cmd, g *group, stdin []byte, out, errs io.Writer) (*pipes, error) {
	p := &pipes{}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own copy
		}
	}()
	pipe := func() (r, w *os.File, err error) { return os.Pipe() }
	inR, inW, err := pipe()
	if err != nil {
		return nil, err
	}
	theirs, p.ours = append(theirs, inR), append(p.ours, inW)
	outR, outW, err := pipe()
	if err != nil {
		p.close()
		return nil, err
	}
	theirs, p.ours = append(theirs, outW), append(p.ours, outR)
	errR, errW, err := pipe()
	if err != nil {
		p.close()
		return nil, err
	}
	theirs, p.ours = append(theirs, errW), append(p.ours, errR)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := g.start(); err != nil {
		p.close()
		return nil, err
	}
	go func() {
		_, _ = inW.Write(stdin) // a child that ended early is no error
		_ = inW.Close()
	}()
	p.wg.Go(func() { _, _ = io.Copy(out, outR) })
	p.wg.Go(func() { _, _ = io.Copy(errs, errR) })
	return p, nil
}

// drain returns when both outputs are read to their end, or after a while when something still holds them open.
func (p *pipes) drain() {
	late := time.AfterFunc(drain, p.close)
	p.wg.Wait()
	late.Stop()
	p.close()
}

func (p *pipes) close() {
	for _, f := range p.ours {
		_ = f.Close() // closing twice is fine
	}
}
