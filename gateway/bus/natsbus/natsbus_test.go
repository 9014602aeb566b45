package natsbus

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"runnerd/gateway/bus"
	"runnerd/gateway/bus/bustest"
	"runnerd/gateway/store"
)

// serve starts a server on a port, or on a free one.
func serve(t testing.TB, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

func portOf(s *server.Server) int { return s.Addr().(*net.TCPAddr).Port }

func open(t testing.TB, servers string) *Bus {
	t.Helper()
	b, err := Open(servers, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBus(t *testing.T) {
	s := serve(t, 0)
	bustest.Run(t, func(t *testing.T) bus.Bus {
		return alone(t, s)
	})
}

// alone is a bus that hears no other of the suite.
func alone(t *testing.T, s *server.Server) bus.Bus {
	return prefixed{open(t, s.ClientURL()), store.Topic(t.Name())}
}

// A prefixed bus has topics of its own: the suite's cases run at the same time, on one server.
type prefixed struct {
	*Bus
	prefix store.Topic
}

func (b prefixed) Ring(topics ...store.Topic) { b.Bus.Ring(b.own(topics)...) }

func (b prefixed) Listen(topics ...store.Topic) (<-chan struct{}, func()) {
	return b.Bus.Listen(b.own(topics)...)
}

func (b prefixed) own(topics []store.Topic) []store.Topic {
	topics = slices.Clone(topics)
	for i := range topics {
		topics[i] = b.prefix + topics[i]
	}
	return topics
}

// across rings at one gateway and listens at another.
type across struct {
	here  bus.Bus
	there bus.Bus
}

func (b across) Ring(topics ...store.Topic) { b.here.Ring(topics...) }

func (b across) Listen(topics ...store.Topic) (<-chan struct{}, func()) {
	return b.there.Listen(topics...)
}

func (b across) Close() error {
	if err := b.here.Close(); err != nil {
		return err
	}
	return b.there.Close()
}

func TestBusesOfOneServerAreOneBus(t *testing.T) {
	s := serve(t, 0)
	bustest.Run(t, func(t *testing.T) bus.Bus { return across{alone(t, s), alone(t, s)} })
}

func TestRingIsHeardHereBeforeItReturns(t *testing.T) {
	b := open(t, serve(t, 0).ClientURL())
	wake, stop := b.Listen("a")
	defer stop()
	b.Ring("a")
	select {
	case <-wake:
	default:
		t.Error("the bell was not heard")
	}
	select {
	case <-wake:
		t.Error("it came back from the server")
	case <-time.After(50 * time.Millisecond):
	}
}

// What was missed while a gateway was cut off is made up for: everybody looks again, in every gateway.
func TestEverybodyLooksAgainAfterTheConnectionWasLost(t *testing.T) {
	first := serve(t, 0)
	port := portOf(first)
	here, there := open(t, first.ClientURL()), open(t, first.ClientURL())
	wakeHere, stopHere := here.Listen("a")
	defer stopHere()
	wakeThere, stopThere := there.Listen("b")
	defer stopThere()

	first.Shutdown()
	first.WaitForShutdown()
	here.Ring("b") // lost, or late
	late, stopLate := there.Listen("c")
	defer stopLate()
	serve(t, port)
	for name, wake := range map[string]<-chan struct{}{"here": wakeHere, "there": wakeThere, "late": late} {
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Errorf("%s was not woken", name)
		}
	}
	deaf := time.After(20 * time.Second)
	for heard := false; !heard; { // both are connected again, sooner or later
		here.Ring("c")
		select {
		case <-late:
			heard = true
		case <-time.After(20 * time.Millisecond):
		case <-deaf:
			t.Fatal("rings do not arrive after the server came back")
		}
	}
}

// A gateway that was never cut off must look again too, when another was: that one's rings were lost.
func TestOneThatStayedLooksAgainAfterAnotherWasCutOff(t *testing.T) {
	s := serve(t, 0)
	cable := newCable(t, s.Addr().String())
	stayed, cut := open(t, s.ClientURL()), open(t, "nats://"+cable.addr())
	wake, stop := stayed.Listen("a")
	defer stop()
	cable.cut()
	select {
	case <-wake:
	case <-time.After(20 * time.Second):
		t.Error("it was not woken")
	}
	cut.Ring("a")
	select {
	case <-wake:
	case <-time.After(20 * time.Second):
		t.Error("a ring did not arrive")
	}
}

// A server that reads nothing, and says nothing, must hold up nobody.
func TestRingDoesNotWaitForAServerThatStandsStill(t *testing.T) {
	s := serve(t, 0)
	cable := newCable(t, s.Addr().String())
	b := open(t, "nats://"+cable.addr())
	wake, stop := b.Listen("a")
	defer stop()
	cable.freeze()
	began := time.Now()
	for i := range 100_000 { // more than any buffer on the way holds, and than are kept
		b.Ring("a", store.RunTopic("acme", store.RunID(fmt.Sprint(i))))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("ringing took %v", took)
	}
	<-wake
	began = time.Now()
	_, stopLate := b.Listen("late")
	defer stopLate()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("listening took %v", took)
	}
	b.sending.Lock()
	n := len(b.unsent)
	b.sending.Unlock()
	if n > maxUnsent+2 {
		t.Errorf("%d topics are kept", n)
	}
}

func TestClosingSendsWhatRang(t *testing.T) {
	s := serve(t, 0)
	here, there := open(t, s.ClientURL()), open(t, s.ClientURL())
	for i := range 20 {
		topic := store.Topic(fmt.Sprint("bye", i))
		wake, stop := there.Listen(topic)
		if i == 19 {
			here.Ring(topic)
			here.Close()
		} else {
			here.Ring(topic)
		}
		select {
		case <-wake:
		case <-time.After(5 * time.Second):
			t.Errorf("%s was not heard", topic)
		}
		stop()
	}
}

func TestNobodyLeftMeansNothingKept(t *testing.T) {
	s := serve(t, 0)
	b := open(t, s.ClientURL())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				_, stop := b.Listen(store.Topic(fmt.Sprint(i%7)), store.Topic(fmt.Sprint(g, "-", i)))
				b.Ring(store.Topic(fmt.Sprint(i % 7)))
				stop()
				stop()
			}
		})
	}
	wg.Wait()
	if len(b.listeners) > 0 || len(b.subs) != 1 {
		t.Errorf("%d topics, %d subscriptions", len(b.listeners), len(b.subs))
	}
	if err := b.nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if n := s.NumSubscriptions(); n > 1+uint32(ownSubscriptions(t)) {
		t.Errorf("the server keeps %d", n)
	}
}

// ownSubscriptions are those that a server has without clients.
func ownSubscriptions(t *testing.T) int { return int(serve(t, 0).NumSubscriptions()) }

func TestErrorsOfOpenNameTheServerAndNoPassword(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for name, c := range map[string]struct{ servers, says string }{
		"refused":   {"nats://ann:s3cret@" + addr, addr},
		"no scheme": {addr, addr},
		"token":     {"nats://s3cret@" + addr, addr},
		"several":   {"nats://ann:s3cret@" + addr + ", nats://ann:s3cret@localhost:1", "localhost:1"},
		"no server": {"nats://", "nats://bus.example.org"},
		"nothing":   {"", "nats://bus.example.org"},
		"no url":    {"nats://ann:s3cret@[::1", "nats://bus.example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.servers, Options{})
			if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWhatHappensToTheConnectionIsLogged(t *testing.T) {
	first := serve(t, 0)
	port := portOf(first)
	var log logged
	b, err := Open(first.ClientURL(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wake, stop := b.Listen("a")
	defer stop()
	first.Shutdown()
	first.WaitForShutdown()
	serve(t, port)
	<-wake
	if s := log.String(); !strings.Contains(s, "is gone") || !strings.Contains(s, "again") {
		t.Errorf("logged %s", s)
	}
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Every topic has a subject of its own, which NATS takes for one token.
func FuzzSubjectsDiffer(f *testing.F) {
	for _, s := range []string{"", "a", "run/acme/r1", "a.b", "a*", ">", " ", "=2e", "#", "ä", "\x00\r\n", strings.Repeat("x", 600)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		sa, sb := subject(store.Topic(a)), subject(store.Topic(b))
		if (a == b) != (sa == sb) {
			t.Errorf("%q is %q, %q is %q", a, sa, b, sb)
		}
		token, ok := strings.CutPrefix(sa, bells)
		if !ok || token == "" || strings.ContainsAny(token, ".*> \t\r\n\x00") || len(sa) > 3*longest+len(bells) || sa == look {
			t.Errorf("%q is %q", a, sa)
		}
	})
}

func BenchmarkRing(b *testing.B) {
	bus := open(b, serve(b, 0).ClientURL())
	topics := make([]store.Topic, 1000)
	for i := range topics {
		topics[i] = store.RunnerTopic(store.RunnerID(fmt.Sprint(i)))
		_, stop := bus.Listen(topics[i])
		defer stop()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		bus.Ring(topics[i%len(topics)])
	}
}

// BenchmarkHeard is how long a ring takes from one gateway to a listener of another.
func BenchmarkHeard(b *testing.B) {
	s := serve(b, 0)
	here, there := open(b, s.ClientURL()), open(b, s.ClientURL())
	wake, stop := there.Listen("a")
	defer stop()
	for b.Loop() {
		here.Ring("a")
		<-wake
	}
}
