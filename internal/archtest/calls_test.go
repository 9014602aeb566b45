package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

func TestOnlyMainExits(t *testing.T) { apply(t, exits) }

func exits(s source) (found []finding) {
	if s.crashes() {
		return nil
	}
	for _, d := range s.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && (f.Name.Name == "main" && s.Name.Name == "main" || f.Name.Name == "TestMain" && s.test) {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s.selector(n, "os", "Exit") || s.selector(n, "log", "Fatal", "Fatalf", "Fatalln") {
				found = append(found, s.at(n, "ends the process outside of main"))
			}
			return true
		})
	}
	return found
}

func TestLoggersArePassedIn(t *testing.T) { apply(t, defaultLoggers) }

func defaultLoggers(s source) []finding {
	return s.find(func(n ast.Node) []finding {
		if s.selector(n, "log/slog", "Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "With",
			"DebugContext", "InfoContext", "WarnContext", "ErrorContext") {
			return []finding{s.at(n, "uses slog's default logger")}
		}
		if !s.support() && s.selector(n, "log", "Print", "Printf", "Println", "Panic", "Panicf", "Default") {
			return []finding{s.at(n, "uses log's default logger")}
		}
		return nil
	})
}

func TestNoSleepOutsideABubble(t *testing.T) { apply(t, sleeps) }

// sleeps takes a test file that imports synctest for one whose sleeps stand in a bubble. A sleep in a loop polls or paces what
// is real, sockets and processes; one outside of a loop only hopes that something has happened by then.
func sleeps(s source) []finding {
	if !s.support() || s.names("testing/synctest") != "" {
		return nil
	}
	var loops []ast.Node
	return s.find(func(n ast.Node) []finding {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			loops = append(loops, n)
		}
		looping := slices.ContainsFunc(loops, func(l ast.Node) bool { return l.Pos() <= n.Pos() && n.End() <= l.End() })
		if s.selector(n, "time", "Sleep") && !looping {
			return []finding{s.at(n, "sleeps on the real clock")}
		}
		return nil
	})
}

func TestRequestsLeaveThroughEgress(t *testing.T) { apply(t, otherWaysOut) }

func otherWaysOut(s source) []finding {
	if s.support() || s.within("internal/egress") || s.within(localSockets...) {
		return nil
	}
	return s.find(func(n ast.Node) []finding {
		switch {
		case s.selector(n, "net/http", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "Transport"),
			s.selector(n, "net", "Dial", "DialTimeout", "Dialer", "DialTCP", "DialUDP", "DialUnix", "DialIP", "Resolver", "DefaultResolver",
				"LookupHost", "LookupIP", "LookupAddr", "LookupTXT", "LookupCNAME", "LookupMX", "LookupNS", "LookupSRV"),
			s.selector(n, "crypto/tls", "Dial", "DialWithDialer", "Dialer"):
			return []finding{s.at(n, "reaches the network past internal/egress")}
		}
		if lit, ok := n.(*ast.CompositeLit); ok && s.selector(lit.Type, "net/http", "Client") {
			return []finding{s.at(n, "makes a client of its own")}
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 && s.selector(call.Args[0], "net/http", "Client") {
			return []finding{s.at(n, "makes a client of its own")}
		}
		return nil
	})
}

// localSockets are the folders whose job is to reach a program on this machine.
var localSockets = []string{"gateway/admin", "runner/local"}

// modelMessages are the files that may make a model message. gateway/engine/model.go fences what came from a step;
// cmd/runnerd/provider.go sends the owner's own words to try a provider.
var modelMessages = []string{"gateway/engine/model.go", "cmd/runnerd/provider.go"}

func TestStepOutputReachesModelsThroughTheFence(t *testing.T) {
	apply(t, unfencedMessages)
	made, fenced := false, false
	for _, s := range sources(t) {
		if s.path != modelMessages[0] {
			continue
		}
		made = len(messagesMade(s)) > 0
		ast.Inspect(s.File, func(n ast.Node) bool {
			fenced = fenced || s.selector(n, module+"/internal/fence", "Tool", "MCPTool", "RunEvent")
			return true
		})
	}
	if !made || !fenced {
		t.Errorf("%s makes model messages: %v, fences: %v: the rule has lost its object", modelMessages[0], made, fenced)
	}
}

func unfencedMessages(s source) []finding {
	if s.support() || s.within("internal/wire") || slices.Contains(modelMessages, s.path) {
		return nil
	}
	return messagesMade(s)
}

func messagesMade(s source) []finding {
	const wire = module + "/internal/wire"
	return s.find(func(n ast.Node) []finding {
		lit, ok := n.(*ast.CompositeLit)
		if ok && s.selector(lit.Type, wire, "Message", "ModelInputs") || s.selector(n, wire, "Text") {
			return []finding{s.at(n, "makes a model message: that is gateway/engine/model.go's part, which fences what came from a step")}
		}
		return nil
	})
}

func TestTheEngineIsPure(t *testing.T) { apply(t, impurities) }

func impurities(s source) []finding {
	if s.test || !s.within("gateway/engine") {
		return nil
	}
	return s.find(func(n ast.Node) []finding {
		if _, ok := n.(*ast.GoStmt); ok {
			return []finding{s.at(n, "starts a goroutine")}
		}
		if s.selector(n, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick") {
			return []finding{s.at(n, "reads the clock")}
		}
		for _, p := range []string{"os", "net", "net/http", "database/sql", "math/rand", "math/rand/v2", "crypto/rand", "log/slog"} {
			if s.selector(n, p) {
				return []finding{s.at(n, "uses %s", p)}
			}
		}
		return nil
	})
}
