import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createDockerClient } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { loadArchive } from '@gantry/sandbox-containers/internal/images/docker-images'
import { imageArchive } from '@gantry/sandbox-containers/internal/images/image-archive'
import { startDocker } from '../../../../scripts/engines/docker.ts'
import { api } from './docker-api.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'

const { signal } = new AbortController()
const name = 'gantry-test/archive:one'

function makeFiles(folder: string): string {
  mkdirSync(join(folder, 'etc'), { recursive: true })
  writeFileSync(join(folder, 'etc/motd'), 'hello\n')
  return folder
}

async function load(socket: string, folder: string): Promise<string> {
  const client = createDockerClient({ kind: 'socket', path: socket })
  try {
    const archive = await imageArchive({ folder, names: [name], labels: { 'dev.gantry.parts': 'test' }, signal })
    await loadArchive(client, archive, signal)
    return archive.digest
  } finally {
    client.close()
  }
}

async function inspect(socket: string): Promise<{ Id: string; Config: { Labels: object } }> {
  return (await api(socket, 'GET', `/images/${encodeURIComponent(name)}/json`)) as {
    Id: string
    Config: { Labels: object }
  }
}

test('the same files, made at different times, are an image of the same Id in two engines', async () => {
  const work = mkdtempSync(join(tmpdir(), 'gantry-image-id-'))
  const other = await startDocker()
  try {
    const digest = await load(dockerSocket(), makeFiles(join(work, 'one')))
    assert.equal(await load(other.socket, makeFiles(join(work, 'other'))), digest)
    for (const socket of [dockerSocket(), other.socket]) {
      const { Id, Config } = await inspect(socket)
      assert.equal(Id, digest)
      assert.deepEqual(Config.Labels, { 'dev.gantry.parts': 'test' })
    }
  } finally {
    await api(dockerSocket(), 'DELETE', `/images/${encodeURIComponent(name)}`).catch(() => undefined)
    await other.stop()
    rmSync(work, { recursive: true })
  }
})

test('files that change while their image is loaded end the build, and no image is left', async () => {
  const work = mkdtempSync(join(tmpdir(), 'gantry-image-id-'))
  const client = createDockerClient({ kind: 'socket', path: dockerSocket() })
  const broken = 'gantry-test/broken:one'
  try {
    const folder = makeFiles(work)
    const archive = await imageArchive({ folder, names: [broken], labels: {}, signal })
    writeFileSync(join(folder, 'more'), Buffer.alloc(100_000))
    await assert.rejects(loadArchive(client, archive, signal), (error) => {
      assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE', String(error))
      assert.match(error.message, /changed while they were read/)
      return true
    })
    await assert.rejects(api(dockerSocket(), 'GET', `/images/${encodeURIComponent(broken)}/json`), /404/)
  } finally {
    client.close()
    rmSync(work, { recursive: true })
  }
})
