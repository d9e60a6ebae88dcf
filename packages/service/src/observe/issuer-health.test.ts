import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus } from './bus.ts'
import { createIssuerHealth } from './dependency-health.ts'
import { createLog, logEvents } from './logs.ts'

test('an issuer whose keys cannot be fetched is logged once, and once when they can again', () => {
  const lines: string[] = []
  const bus = createBus()
  logEvents(bus, createLog('info', { write: (line) => void lines.push(line) }))
  let ms = 0
  const issuers = createIssuerHealth(bus, () => ms)
  issuers.settle('login', undefined)
  issuers.settle('login', 'The key set URL returned the status 500.')
  issuers.settle('login', 'The key set URL returned no JSON Web Key Set.')
  ms = 7_000.4
  issuers.settle('other', undefined)
  issuers.settle('login', undefined)
  issuers.settle('login', undefined)
  const said = lines.map((line) => JSON.parse(line)).map(({ level, pid: _, time: __, ...fields }) => [level, fields])
  assert.deepEqual(said, [
    [
      'error',
      { issuer: 'login', reason: 'The key set URL returned the status 500.', msg: 'keys of an issuer unavailable' },
    ],
    ['info', { issuer: 'login', downMs: 7_000, msg: 'keys of an issuer available again' }],
  ])
})
