import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Report } from '@gantry/contract'
import { lazyReports } from './execute-call.ts'

const log = (message: string): Report => ({ kind: 'log', level: 'info', message })

function writer() {
  const done: string[] = []
  const open = () => ({
    report: (report: Report) => void done.push(report.kind === 'log' ? report.message : report.kind),
    end: async () => {
      done.push('end')
      return { events: [], lost: 0 }
    },
  })
  return { done, open }
}

test('a call without reports opens no writer, and waits for nothing at its end', async () => {
  const events = writer()
  await lazyReports({ callId: 'c', fence: 1, entering: new Promise(() => {}) }, events).end()
  assert.deepEqual(events.done, [])
})

test('reports of a call that is not stored yet are written once it is, in order, and before its end', async () => {
  const events = writer()
  const entering = Promise.withResolvers<void>()
  const reports = lazyReports({ callId: 'c', fence: 1, entering: entering.promise }, events)
  void reports.report(log('a'))
  void reports.report(log('b'))
  assert.deepEqual(events.done, [])
  entering.resolve()
  await reports.end()
  assert.deepEqual(events.done, ['a', 'b', 'end'])
})

test('a report of a stored call is written at once', () => {
  const events = writer()
  void lazyReports({ callId: 'c', fence: 1 }, events).report(log('a'))
  assert.deepEqual(events.done, ['a'])
})

test('the reports of a call that is never stored are lost, and its end does not fail', async () => {
  const events = writer()
  const reports = lazyReports({ callId: 'c', fence: 1, entering: Promise.reject(new Error('unavailable')) }, events)
  void reports.report(log('a'))
  await reports.end()
  assert.deepEqual(events.done, [])
})
