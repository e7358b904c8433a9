package client

import (
	"context"
	"errors"
	"time"
)

// Schedules returns a page of the schedules that the caller sees, by name; or only those of a
// name.
func (c *Client) Schedules(ctx context.Context, name string, first int, after string) (*SchedulePage, error) {
	data, err := schedules(ctx, repeater{c}, Optional(name), Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Schedules, nil
}

// Schedule returns a schedule with its newest slots, 1 to 200, and its next ones, 1 to 1000.
func (c *Client) Schedule(ctx context.Context, id string, slots, upcoming int) (*ScheduleDetail, error) {
	data, err := scheduleDetail(ctx, repeater{c}, id, slots, upcoming)
	if err != nil {
		return nil, err
	}
	if data.Schedule == nil {
		return nil, errors.New("there is no such schedule")
	}
	return data.Schedule, nil
}

// ScheduleSlots returns the slots between two times, fired or not. More than maxFires, 1 to 1000,
// are an error.
func (c *Client) ScheduleSlots(ctx context.Context, id string, from, to time.Time, maxFires int) ([]time.Time, error) {
	data, err := scheduleSlots(ctx, repeater{c}, id, from, to, maxFires)
	if err != nil || data.Schedule == nil {
		return nil, err
	}
	return data.Schedule.SlotsBetween, nil
}

// ApplySchedule creates a schedule, or updates the account's schedule of the same name.
func (c *Client) ApplySchedule(ctx context.Context, in ScheduleInput) (*Schedule, error) {
	data, err := applySchedule(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.ApplySchedule, nil
}

// PauseSchedule stops a schedule until ResumeSchedule.
func (c *Client) PauseSchedule(ctx context.Context, id, reason string) (*Schedule, error) {
	data, err := pauseSchedule(ctx, repeater{c}, id, Optional(reason))
	if err != nil {
		return nil, err
	}
	return &data.PauseSchedule, nil
}

// ResumeSchedule lets a paused schedule fire again.
func (c *Client) ResumeSchedule(ctx context.Context, id string) (*Schedule, error) {
	data, err := resumeSchedule(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ResumeSchedule, nil
}

// FireSchedule fires a schedule now, and returns the slot with the job or the workflow.
func (c *Client) FireSchedule(ctx context.Context, id string) (*FiredSlot, error) {
	data, err := fireSchedule(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.FireSchedule, nil
}

// FireSlots fires the slots between two times that did not fire, at most maxFires. With perMinute
// above 0, it fires at that pace, and only the first are returned.
func (c *Client) FireSlots(ctx context.Context, id string, from, to time.Time, maxFires, perMinute int) ([]FiredSlot, error) {
	data, err := fireSlots(ctx, repeater{c}, id, from, to, maxFires, Optional(perMinute))
	if err != nil {
		return nil, err
	}
	return data.FireSlots, nil
}

// DeleteSchedule deletes a schedule. What it submitted stays.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	_, err := deleteSchedule(ctx, repeater{c}, id)
	return err
}
