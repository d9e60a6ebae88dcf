import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { hasProgram } from '../../../../../scripts/engines/packages.ts'
import { startPostgres } from '../../../../../scripts/engines/postgres.ts'
import { migrate } from '../databases/migrate.ts'
import { openPostgres } from '../databases/postgres.ts'
import { sqlAudit } from './audit-log.ts'

const identity = { principal: 'alice', tenant: 'acme', permissions: ['some:thing'] }
const inputSchema = { type: 'object' } as const

const real = { skip: !hasProgram('postgres') && 'PostgreSQL is not installed' }
test('a privileged tool does not start while its intent cannot be written to the audit log', real, async (t) => {
  const server = await startPostgres()
  t.after(() => server.stop())
  const database = await openPostgres({ url: server.url, connectMs: 1_000 })
  t.after(() => database.close())
  await migrate(database)
  const ran: string[] = []
  const tool = (name: string, given: { permissions?: string[]; approval?: 'always' }) =>
    defineTool({
      namespace: 'some',
      name,
      description: 'Notes that it ran.',
      inputSchema,
      effect: 'read',
      ...given,
      run: () => ran.push(name),
    })
  const executor = createExecutor({
    tools: [
      tool('plain', {}),
      tool('privileged', { permissions: ['some:thing'] }),
      tool('asked', { approval: 'always' }),
    ],
    audit: sqlAudit(database, () => 'v1'),
    approver: { approve: async () => ({ approved: true, by: 'bob' }) },
  })
  t.after(() => executor.close())
  const run = async (name: string, callId: string) => {
    const { status, error } = await executor.run(`some:${name}`, { user: 'a' }, { identity, callId })
    return [status, error?.code, error?.effect]
  }
  for (const name of ['plain', 'privileged', 'asked'])
    assert.deepEqual(await run(name, name), ['ok', undefined, undefined])
  assert.deepEqual(ran.splice(0), ['plain', 'privileged', 'asked'])
  const rows = await database.query('select call_id, phase, details from audit order by seq')
  assert.deepEqual(
    rows.map(({ call_id, phase }) => [call_id, phase]),
    [
      ['privileged', 'intent'],
      ['asked', 'intent'],
    ],
    'start and end entries are written with the claim and the outcome',
  )
  assert.match(String(rows[1]?.details), /"args":\{"user":"a"\},"approvedBy":"bob"/)

  server.kill()
  const refused = ['failed', 'AUDIT_UNAVAILABLE', 'none']
  assert.deepEqual(await run('privileged', 'a'), refused)
  assert.deepEqual(await run('asked', 'b'), refused)
  assert.deepEqual(await run('privileged', 'chain.step'), refused)
  assert.deepEqual(
    await run('plain', 'chain.other'),
    refused,
    'a call inside a chain, whose only entry this is, does not start either',
  )
  assert.deepEqual(ran, [])
  await server.restart()
  assert.deepEqual(await run('privileged', 'c'), ['ok', undefined, undefined])
  const after = await database.query("select call_id from audit where phase <> 'end' order by seq")
  assert.deepEqual(
    after.map(({ call_id }) => call_id),
    ['privileged', 'asked', 'c'],
  )
})
