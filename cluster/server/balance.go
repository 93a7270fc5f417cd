package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A balancer passes each TCP connection on to one of its backends, in turn, and makes the faults
// that its control socket is asked for, one line each:
//
//	pass      no faults
//	delay MS  each piece of data is so many milliseconds late
//	hang      connections are taken and stay, and no data passes
//	refuse    all connections are cut, and new ones at once
//	drop      all connections are cut now; new ones are as before
//	count     how many connections there are
type balancer struct {
	backends []string
	next     atomic.Uint64

	mutex   sync.Mutex
	changed *sync.Cond
	mode    string
	delay   time.Duration
	open    map[net.Conn]struct{}
}

func balance(address, control string, backends []string) error {
	b := &balancer{backends: backends, mode: "pass", open: map[net.Conn]struct{}{}}
	b.changed = sync.NewCond(&b.mutex)
	_ = os.Remove(control)
	commands, err := net.Listen("unix", control)
	if err != nil {
		return err
	}
	connections, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go accept(commands, b.obey)
	accept(connections, b.pass)
	return nil
}

func accept(listener net.Listener, handle func(net.Conn)) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go handle(connection)
	}
}

func (b *balancer) obey(connection net.Conn) {
	defer connection.Close()
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		answer, err := b.set(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Fprintln(connection, answer)
	}
}

func (b *balancer) set(words []string) (string, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch strings.Join(words[:min(1, len(words))], "") {
	case "pass", "hang":
		b.mode = words[0]
	case "delay":
		if len(words) != 2 {
			return "", fmt.Errorf("delay needs milliseconds")
		}
		milliseconds, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		b.mode, b.delay = "delay", time.Duration(milliseconds)*time.Millisecond
	case "refuse":
		b.mode = "refuse"
		b.cut()
	case "drop":
		b.cut()
	case "count":
		return strconv.Itoa(len(b.open)), nil
	default:
		return "", fmt.Errorf("%q is not pass, delay MS, hang, refuse, drop or count", words)
	}
	b.changed.Broadcast()
	return "ok", nil
}

// cut resets every connection. The mutex is held.
func (b *balancer) cut() {
	for connection := range b.open {
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		connection.Close()
	}
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	if !b.keep(client) {
		return
	}
	defer b.forget(client)
	backend := b.dial()
	if backend == nil || !b.keep(backend) {
		return
	}
	defer backend.Close()
	defer b.forget(backend)
	done := make(chan struct{}, 2)
	go b.copy(backend, client, done)
	go b.copy(client, backend, done)
	<-done
}

func (b *balancer) dial() net.Conn {
	first := b.next.Add(1)
	for tried := range b.backends {
		address := b.backends[(first+uint64(tried))%uint64(len(b.backends))]
		if connection, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			return connection
		}
	}
	return nil
}

func (b *balancer) copy(to, from net.Conn, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	buffer := make([]byte, 64*1024)
	for {
		count, err := from.Read(buffer)
		if count > 0 {
			b.wait()
			if _, err := to.Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when data may pass.
func (b *balancer) wait() {
	b.mutex.Lock()
	for b.mode == "hang" {
		b.changed.Wait()
	}
	mode, delay := b.mode, b.delay
	b.mutex.Unlock()
	if mode == "delay" {
		time.Sleep(delay)
	}
}

func (b *balancer) keep(connection net.Conn) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.mode == "refuse" {
		return false
	}
	b.open[connection] = struct{}{}
	return true
}

func (b *balancer) forget(connection net.Conn) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.open, connection)
}
