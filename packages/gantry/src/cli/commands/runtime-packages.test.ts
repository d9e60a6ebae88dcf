import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { removeTree } from '@gantry/sandbox/internal/packages/layer-store'
import { packageTest, useWheels, writeWheel } from '../../../../sandbox/src/packages/wheels.fixture.ts'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

const configOf = (packages: readonly string[]): string => JSON.stringify({ runtimes: { python: { packages } } })

packageTest('packages are built, checked, used by a call, and pruned when the list is another one', async () => {
  using folder = folderWith({ 'gantry.config.json': configOf(['gantry_cli']) })
  const wheels = join(folder.path, 'wheels')
  writeWheel(wheels, 'gantry_cli', '1.0', { 'gantry_cli.py': 'number = 7\n' })
  writeWheel(wheels, 'gantry_more', '1.0', { 'gantry_more.py': '' })
  useWheels(wheels)
  const call = [
    'run',
    'code:run',
    '{"language":"python","code":"import gantry_cli\\nreturn gantry_cli.number"}',
    '--json',
  ]
  const early = await gantry(folder.path, ...call)
  assert.deepEqual([early.code, JSON.parse(early.out).error.code], [5, 'RUNTIME_UNAVAILABLE'])
  assert.match(early.err, /are not built.*Run `gantry runtime build packages`/)

  const built = await gantry(folder.path, 'runtime', 'build', '--json')
  assert.equal(built.code, 0, built.err)
  const [item] = JSON.parse(built.out).items
  assert.deepEqual([item.kind, item.packages, item.built, item.locked], ['python', 1, true, true])
  assert.match(readFileSync(join(folder.path, 'gantry.python.lock'), 'utf8'), /^gantry_cli==1\.0 --hash=sha256:/m)
  const checked = JSON.parse((await gantry(folder.path, 'config', 'check', '--json')).out)
  assert.deepEqual([checked.packages[0].digest, checked.warnings], [item.digest, []])
  const late = JSON.parse((await gantry(folder.path, ...call)).out)
  assert.deepEqual([late.output.value, late.runtime.packages], [7, { python: item.digest }])

  writeFileSync(join(folder.path, 'gantry.config.json'), configOf(['gantry_cli', 'gantry_more']))
  const stale = await gantry(folder.path, 'config', 'check')
  assert.match(stale.err, /\/runtimes\/python\/lock.* is the lock of another list .*--update/)
  assert.equal((await gantry(folder.path, 'runtime', 'build', 'packages')).code, 2)
  const renewed = await gantry(folder.path, 'runtime', 'build', 'packages', '--update')
  assert.match(renewed.out, /^python {2}sha256:[0-9a-f]{64} {2}2 packages, 0 MB, built; lock /)
  const pruned = JSON.parse((await gantry(folder.path, 'runtime', 'prune', 'packages', '--json')).out)
  assert.deepEqual(pruned, { removed: [item.digest.slice('sha256:'.length)], kept: [] })
  assert.equal(readdirSync(join(folder.path, '.gantry/packages')).length, 2)
  await removeTree(join(folder.path, '.gantry/packages'))
})

test('building packages without a list, and pruning anything else, are refused with what to do', async () => {
  using folder = folderWith({ 'gantry.config.json': '{}' })
  const { code, err } = await gantry(folder.path, 'runtime', 'build', 'packages')
  assert.deepEqual([code, /^CONFIG_INVALID: No packages are configured/.test(err)], [2, true], err)
  assert.match((await gantry(folder.path, 'runtime', 'prune', 'package')).err, /there is packages/)
})
