package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuOf returns the time that the threads of a process have run, user and system, exact to the nanosecond (proc(5), schedstat). What
// threads that have ended used is not in it: those of a Go program and of a PostgreSQL backend last.
func cpuOf(pid int) (used time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
			continue // it has just ended
		} else if err != nil {
			return 0, err
		}
		ran, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		used += time.Duration(ran)
	}
	if used == 0 {
		return 0, fmt.Errorf("process %d has not run, or is gone", pid)
	}
	return used, nil
}

// cpuOfServer returns the same of a PostgreSQL server: of the postmaster, its children, and those that have ended, which the
// kernel counts in hundredths of a second.
func cpuOfServer(postmaster int) (time.Duration, error) {
	used, err := cpuOf(postmaster)
	if err != nil {
		return 0, err
	}
	stat, err := statOf(postmaster)
	if err != nil {
		return 0, err
	}
	for _, field := range stat[15:17] { // cutime and cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		used += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		if ran, err := cpuOf(pid); err == nil { // else it has just ended
			used += ran
		}
	}
	return used, nil
}

// statOf returns the fields of /proc/PID/stat from the state on, with two in front, so that field n of proc(5) has index n-1.
func statOf(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(text, ')') // the name of the program may hold anything
	return append([]string{"", ""}, strings.Fields(string(text[end+1:]))...), nil
}

// parentOf returns the process that started this one.
func parentOf(pid int) (int, error) {
	stat, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(stat[3])
}

// memoryMiB returns a line of /proc/PID/status: VmHWM is the most memory that a process has had resident, RssAnon what of it now
// is no part of a file, as its program is.
func memoryMiB(pid int, line string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d tells no %s", pid, line)
}
