import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TokenIssuer } from '../../config/authentication-settings.ts'
import { createBus } from '../../observe/bus.ts'
import { createLog, logEvents } from '../../observe/logs.ts'
import { createIssuerWatch } from './open-authentication.ts'

test('an issuer whose keys cannot be had is one line in the log, and one when they can again', () => {
  const lines: string[] = []
  const bus = createBus()
  logEvents(bus, createLog('info', { write: (line) => void lines.push(line) }))
  let ms = 0
  const told = createIssuerWatch(bus, () => ms)
  const [login, other] = ['login', 'other'].map((name) => ({ name }) as TokenIssuer) as [TokenIssuer, TokenIssuer]
  told(login, undefined)
  told(login, 'It answers with the status 500.')
  told(login, 'What it answers is no set of keys.')
  ms = 7_000.4
  told(other, undefined)
  told(login, undefined)
  told(login, undefined)
  const said = lines.map((line) => JSON.parse(line)).map(({ level, pid: _, time: __, ...fields }) => [level, fields])
  assert.deepEqual(said, [
    ['error', { issuer: 'login', reason: 'It answers with the status 500.', msg: 'keys of an issuer away' }],
    ['info', { issuer: 'login', downMs: 7_000, msg: 'keys of an issuer back' }],
  ])
})
