import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { settingsOf } from './options.ts'

test('settingsOf fills in defaults', () => {
  const settings = settingsOf({ connectMs: 5, allow: [] })
  assert.deepEqual([settings.connectMs, settings.headersMs, settings.maxResponseBytes], [5, 30_000, 16_777_216])
  assert.deepEqual([settings.rules, settingsOf({}).rules, settings.ca], [[], undefined, []])
})

test('every invalid option is refused with its path', () => {
  const wrong: [unknown, string][] = [
    [{ alow: [] }, '/egress/alow'],
    [{ maxResponseBytes: 0 }, '/egress/maxResponseBytes'],
    [{ idleMs: Number.POSITIVE_INFINITY }, '/egress/idleMs'],
    [{ connectMs: 2 ** 31 }, '/egress/connectMs'],
    [{ headersMs: '5' }, '/egress/headersMs'],
    [{ maxConnections: 1.5 }, '/egress/maxConnections'],
    [{ rate: { perSecond: 0, burst: 1 } }, '/egress/rate/perSecond'],
    [{ rate: { perSecond: 1 } }, '/egress/rate/burst'],
    [{ rate: null }, '/egress/rate'],
    [{ ca: [7] }, '/egress/ca'],
    [{ lookup: 'dns' }, '/egress/lookup'],
    [{ onEvent: {} }, '/egress/onEvent'],
    [{ allow: ['nonsense'] }, '/egress/allow/0/origin'],
    [{ allow: 'https://example.com' }, '/egress/allow'],
  ]
  for (const [options, path] of wrong) {
    assert.throws(
      () => settingsOf(options as never),
      (error) => ToolError.is(error) && error.code === 'CONFIG_INVALID' && error.details?.issues?.[0]?.path === path,
      path,
    )
  }
  assert.throws(() => settingsOf({ alow: [] } as never), /did you mean "allow"/)
})
