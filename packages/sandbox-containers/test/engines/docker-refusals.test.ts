import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createDockerRuntime, type DockerOptions } from '@gantry/sandbox-containers'
import { api, commitImage } from './docker-api.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const { signal } = new AbortController()
const root = mkdtempSync(join(tmpdir(), 'gantry-refusals-'))
after(() => rmSync(root, { recursive: true, force: true }))

/** Why a runtime cannot be used, by its probe and by opening a sandbox, which must agree. */
async function refusalOf(options: DockerOptions): Promise<{ readonly reason: string; readonly remedy: string }> {
  const runtime = createDockerRuntime({ root, socket: dockerSocket(), ...options })
  try {
    const probe = await runtime.probe(signal)
    if (probe.available) assert.fail('It is available.')
    const { reason, remedy } = probe
    await assert.rejects(runtime.open({ limits, network: 'none' }, signal), (error) => {
      assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE', String(error))
      assert.equal(error.message, `${reason} ${remedy}`)
      return true
    })
    return { reason, remedy }
  } finally {
    await runtime.close()
  }
}

test('a data folder that cannot be made, that is a link, or that others can write, is named with the remedy', async () => {
  const [file, link, shared] = [join(root, 'file'), join(root, 'link'), join(root, 'shared')]
  writeFileSync(file, '')
  symlinkSync(tmpdir(), link)
  mkdirSync(shared)
  chmodSync(shared, 0o777)
  for (const [folder, why] of [
    [join(file, 'data'), 'cannot be made'],
    ['/proc/gantry-data', 'cannot be made'],
    [link, 'is a symbolic link'],
    [shared, 'can be written by others'],
  ] as const) {
    const { reason, remedy } = await refusalOf({ root: folder })
    assert.equal(reason, `The folder for sandboxes, ${folder}, ${why}.`)
    assert.match(remedy, /^Set SANDBOX_ROOT to a folder that only you can write/)
  }
})

test('an image with a volume is refused, because nothing would bound what is written there', async () => {
  await commitImage(dockerSocket(), 'gantry-test/volume', ['VOLUME /loot'])
  try {
    const { reason, remedy } = await refusalOf({ image: 'gantry-test/volume' })
    assert.match(reason, /declares the volume "\/loot"/)
    assert.match(remedy, /without VOLUME/)
  } finally {
    await api(dockerSocket(), 'DELETE', '/images/gantry-test%2Fvolume')
  }
})
