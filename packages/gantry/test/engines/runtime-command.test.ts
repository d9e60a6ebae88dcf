import assert from 'node:assert/strict'
import { test } from 'node:test'
import { api, importForeign } from '../../../sandbox-containers/test/engines/docker-api.fixture.ts'
import { containerd, dockerSocket } from '../../../sandbox-containers/test/engines/engines.fixture.ts'
import { folderWith } from '../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../../src/cli/cli.ts'
import { keptIo } from '../../src/cli/io.fixture.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

const configured = (kinds: readonly string[]) => {
  const runtimes = Object.fromEntries(kinds.map((kind) => [kind, kind === 'docker' ? { socket: dockerSocket() } : {}]))
  return folderWith({ 'gantry.config.json': JSON.stringify({ runtimes }) })
}

interface Image {
  readonly digest: string
  readonly names: readonly string[]
  readonly flavour?: string
}

test('images lists what runtime build loaded, by the engine of the configuration', async () => {
  using folder = configured(['docker'])
  const { code, out } = await gantry(folder.path, 'runtime', 'images', '--json')
  assert.equal(code, 0)
  const { items } = JSON.parse(out) as { items: Image[] }
  const standard = items.find(({ flavour }) => flavour === 'standard')
  assert.match(standard?.digest ?? '', /^sha256:[0-9a-f]{64}$/)
  assert.ok(standard?.names.some((name) => /^gantry\/sandbox:standard-[0-9a-f]{12}$/.test(name)))
  assert.match((await gantry(folder.path, 'runtime', 'images')).out, /^flavour +digest .*\n(?:.*\n)*standard +sha256:/)
})

test('prune removes replaced images, and keeps the newest of a flavour, those of the user and those in use', async () => {
  const socket = dockerSocket()
  using folder = configured(['docker'])
  const label = ['LABEL dev.gantry.parts="old"']
  await importForeign(socket, 'gantry/sandbox:standard-replaced', label)
  await importForeign(socket, 'gantry/sandbox:standard-used', [...label, 'LABEL more="1"'])
  await importForeign(socket, 'gantry-test/mine:1', [...label, 'LABEL more="2"'])
  const body = { Image: 'gantry/sandbox:standard-used', Cmd: ['/hello'] }
  const { Id } = (await api(socket, 'POST', '/containers/create', body)) as { Id: string }
  const names = async (): Promise<readonly string[]> => {
    const { items } = JSON.parse((await gantry(folder.path, 'runtime', 'images', '--json')).out) as { items: Image[] }
    return items.flatMap((image) => image.names)
  }
  try {
    assert.ok((await names()).includes('gantry/sandbox:standard-replaced'))
    const { code, out } = await gantry(folder.path, 'runtime', 'prune', '--json')
    assert.equal(code, 0)
    const pruned = JSON.parse(out) as { images: Image[]; kept: { reason: string }[] }
    assert.ok(pruned.images.some((image) => image.names.includes('gantry/sandbox:standard-replaced')))
    assert.match(pruned.kept.map(({ reason }) => reason).join('\n'), /is using/)
    const left = await names()
    for (const name of ['gantry/sandbox:standard', 'gantry/sandbox:standard-used', 'gantry-test/mine:1']) {
      assert.ok(left.includes(name), `${name} is gone`)
    }
    assert.ok(!left.includes('gantry/sandbox:standard-replaced'))
  } finally {
    await api(socket, 'DELETE', `/containers/${Id}`)
    for (const name of ['gantry/sandbox:standard-used', 'gantry-test/mine:1']) {
      await api(socket, 'DELETE', `/images/${encodeURIComponent(name)}`)
    }
  }
})

test('code runs in the configured runtimes, and the result has the digest of the image', async () => {
  using folder = configured(['docker', 'gvisor'])
  const { Id } = (await api(dockerSocket(), 'GET', '/images/gantry%2Fsandbox%3Astandard/json')) as { Id: string }
  for (const [kind, isolation] of [
    ['docker', 'container'],
    ['gvisor', 'kernel'],
  ]) {
    const args = JSON.stringify({ language: 'python', code: 'print(6*7)', runtime: kind })
    const { code, out, err } = await gantry(folder.path, 'run', 'code:run', args, '--json')
    assert.equal(code, 0, err)
    const { output, runtime } = JSON.parse(out)
    assert.deepEqual(runtime, { kind, isolation, image: Id })
    assert.equal(output.stdout, '42\n')
  }
})

test('containerd has the image with the digest that Docker has, and code runs in it', async () => {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify({ runtimes: { containerd: containerd() } }) })
  const { Id } = (await api(dockerSocket(), 'GET', '/images/gantry%2Fsandbox%3Astandard/json')) as { Id: string }
  const { items } = JSON.parse((await gantry(folder.path, 'runtime', 'images', '--json')).out) as { items: Image[] }
  assert.equal(items.find(({ flavour }) => flavour === 'standard')?.digest, Id)
  const args = JSON.stringify({ language: 'python', code: 'print(6*7)', runtime: 'containerd' })
  const { code, out, err } = await gantry(folder.path, 'run', 'code:run', args, '--json')
  assert.equal(code, 0, err)
  const { output, runtime } = JSON.parse(out)
  assert.deepEqual(runtime, { kind: 'containerd', isolation: 'container', image: Id })
  assert.equal(output.stdout, '42\n')
  assert.equal((await gantry(folder.path, 'runtime', 'prune')).code, 0)
})

test('doctor lists the configured runtimes with their versions and limits', async () => {
  using folder = configured(['docker', 'gvisor', 'kata'])
  const { runtimes } = JSON.parse((await gantry(folder.path, 'doctor', '--json')).out) as {
    runtimes: { kind: string; available: boolean; version: string; languages: string[]; reason?: string }[]
  }
  const found = new Map(runtimes.map((one) => [one.kind, one]))
  for (const kind of ['docker', 'gvisor']) {
    assert.equal(found.get(kind)?.available, true, found.get(kind)?.reason)
    assert.match(found.get(kind)?.version ?? '', /^Docker .*image sha256:/)
    assert.ok(found.get(kind)?.languages.includes('python'))
  }
  assert.match(found.get('kata')?.reason ?? '', /has no runtime "io\.containerd\.kata\.v2"; it has /)
})
