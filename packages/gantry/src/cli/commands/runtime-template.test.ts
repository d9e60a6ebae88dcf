import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { test } from 'node:test'
import { addGuestFiles } from '@gantry/sandbox-proxmox/internal/templates/guest-files'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; err: string }> {
  const io = keptIo({ folder, environment: {} })
  const code = await runCommandLine(line, io)
  return { code, err: io.printed.err }
}

test('a template has a flavour with Node, and the key of a configured node; anything else ends with 2 and what to change', async () => {
  using folder = folderWith({})
  const flavour = await gantry(folder.path, 'runtime', 'template', 'out.tar.gz', 'python')
  assert.equal(flavour.code, 2)
  assert.match(flavour.err, /python is no flavour of a template; there are node, standard, full\./)
  const bare = await gantry(folder.path, 'runtime', 'template', 'out.tar.gz')
  assert.equal(bare.code, 2)
  assert.match(bare.err, /The configuration needs runtimes\.proxmox/)
  assert.ok(!(await readdir(folder.path)).includes('out.tar.gz'))
})

test('a root file system becomes a template: process 1, the agent, and a key that its owner alone may read', async () => {
  using folder = folderWith({ 'usr/sbin/init': 'another', 'gantry/contents.json': '{}' })
  await addGuestFiles(folder.path, 'k'.repeat(48))
  const read = (path: string): string => readFileSync(`${folder.path}/${path}`, 'utf8')
  assert.match(read('usr/sbin/init'), /^#!\/usr\/bin\/busybox sh\n/)
  assert.match(read('gantry/agent.mjs'), /createServer/)
  assert.equal(read('gantry/agent-key'), `${'k'.repeat(48)}\n`)
  assert.deepEqual(await readdir(`${folder.path}/etc`), ['network'])
})
