import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hostPlan, launch, runOn, shell, text, until } from './launcher.fixture.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

test('a warm interpreter gets its files, job line and stdin with the run', { skip }, async () => {
  const launched = await launch(hostPlan())
  launched.start(shell('read line <&3; echo "line $line"; cat; cat file; echo \'{"value":1}\' >&3'))
  const end = await runOn(launched, {
    line: '{"job":1}',
    stdin: Buffer.from('in '),
    files: new Map([['file', Buffer.from('file')]]),
  })
  assert.equal(text(end.stdout), 'line {"job":1}\nin file')
  assert.deepEqual(end.messages, [{ value: 1 }])
  assert.deepEqual([end.exit, end.alive], [{ code: 0 }, false])
  assert.equal((await launched.ended).reason, 'exited')
})

test('a run on a warm interpreter that died reports its exit code and stderr', { skip }, async () => {
  const plan = hostPlan()
  const launched = await launch(plan)
  launched.start(shell('echo broken >&2; touch over; exit 9'))
  await until(() => existsSync(join(plan.workspace, 'over')))
  const end = await runOn(launched, { line: '{}' })
  assert.deepEqual(end.exit, { code: 9 })
  assert.equal(text(end.stderr), 'broken\n')
  await launched.dispose()
})

test('a kept interpreter runs one turn after another and keeps its state', { skip }, async () => {
  const launched = await launch(hostPlan())
  const loop =
    'n=0; while read line <&3; do n=$((n+1)); echo "$n $line"; echo x > f$n; echo "{\\"value\\":$n}" >&3; echo \'{"done":true,"code":\'$n\'}\' >&3; done'
  launched.start(shell(loop), { keep: true })
  for (const turn of [1, 2, 3]) {
    const end = await runOn(launched, { line: `turn${turn}`, collect: { files: 5, bytes: 100 } })
    assert.equal(text(end.stdout), `${turn} turn${turn}\n`)
    assert.deepEqual(end.messages, [{ value: turn }])
    assert.deepEqual([end.exit, end.alive, end.files.size], [{ code: turn }, true, turn])
  }
  const unwritten = await runOn(launched, { line: 'lost', files: new Map([['../x', Buffer.from('x')]]) })
  assert.deepEqual([unwritten.unwritten?.path, unwritten.alive], ['../x', true])
  assert.equal(text((await runOn(launched, { line: 'last' })).stdout), '4 last\n')
  assert.equal((await launched.dispose()).reason, 'killed')
})

test('a kept interpreter that exits ends its run with its exit code', { skip }, async () => {
  const launched = await launch(hostPlan())
  launched.start(shell('read line <&3; echo bye; exit 7'), { keep: true })
  const end = await runOn(launched, { line: 'x' })
  assert.deepEqual([end.exit, end.alive, text(end.stdout)], [{ code: 7 }, false, 'bye\n'])
  await launched.dispose()
  await assert.rejects(runOn(launched, { line: 'y' }), { code: 'BACKEND_FAILED' })
})
