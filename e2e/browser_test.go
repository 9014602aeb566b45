package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"runnerd/internal/testdep"
)

// A phone is a tab of a real browser, 390 by 844 with touch.
type phone struct {
	t   testing.TB
	ctx context.Context
}

// newPhone starts a browser with a profile of its own.
func newPhone(t testing.TB) *phone {
	t.Helper()
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(testdep.Program(t, "chromium", "Debian's package chromium")), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Headless,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	p := &phone{t, ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))); err != nil { // owns the browser: no deadline
		t.Fatalf("start chromium: %v", err)
	}
	return p
}

func (p *phone) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, 30*time.Second)
}

// do takes steps, and keeps a picture when one fails.
func (p *phone) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.picture("failed")
		p.t.Fatalf("on the page: %v", err)
	}
}

func (p *phone) open(url string) { p.t.Helper(); p.do(chromedp.Navigate(url)) }

func (p *phone) text(sel string) string {
	p.t.Helper()
	return query(p, chromedp.TextContent(sel))
}

func query[T any](p *phone, a chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		p.picture("failed")
		p.t.Fatalf("on the page: %v", err)
	}
	return v
}

// until waits for an expression of the page to be true.
func (p *phone) until(what, expression string) {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	poll := chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(20*time.Millisecond))
	_, err := chromedp.Run(ctx, poll)
	for err != nil && ctx.Err() == nil && leftDocument(err) {
		_, err = chromedp.Run(ctx, poll)
	}
	if err != nil {
		p.picture("failed")
		p.t.Fatalf("the page does not come to %q: %v; it shows %q", what, err, query(p, chromedp.Evaluate[string]("document.body.innerText")))
	}
}

// leftDocument says that a question got no answer because the tab went to another document meanwhile: it is asked again there.
func leftDocument(err error) bool {
	return strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated or closed")
}

// picture keeps what the phone shows with the test's artifacts.
func (p *phone) picture(name string) {
	ctx, cancel := p.within()
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), png, 0o600)
	}
	if err != nil {
		p.t.Logf("no picture: %v", err)
	}
}

// start fills the form and sends it.
func (p *phone) start(prompt, provider, model string) {
	p.t.Helper()
	p.until("the form knows "+provider, `[...document.querySelectorAll("#provider option")].some(o => o.value === "`+provider+`")`)
	p.do(chromedp.SetValue("#provider", provider), changed("#provider"))
	if model != "" {
		p.until("the form knows "+model, `[...document.querySelectorAll("#model option")].some(o => o.value === "`+model+`")`)
		p.do(chromedp.SetValue("#model", model))
	}
	p.do(chromedp.SendKeys("#prompt", prompt), chromedp.Tap("#start"))
	p.until("the run's screen", `document.querySelector("#status")`)
}

// changed tells the page that a value was set, as a person's choice would.
func changed(sel string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](`void document.querySelector("` + sel + `").dispatchEvent(new Event("change"))`)
}
