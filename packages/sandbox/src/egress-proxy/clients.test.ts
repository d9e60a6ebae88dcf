import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import { here, serve, testCertificate } from '../../../core/src/egress/egress.fixture.ts'
import { proxyFor, relay, serveTls, tempFolder } from './proxy.fixture.ts'

const run = promisify(execFile)
const lookup: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]

const python = `
import sys, urllib.request, urllib.error
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code) + ' ' + error.read().decode().split(':')[0]
    except OSError as error:
        return str(error)
print(*[get(url) for url in sys.argv[1:]], sep='\\n')
`
const node = `
const get = async (url) => {
  try {
    const response = await fetch(url)
    return response.ok ? await response.text() : response.status + ' ' + (await response.text()).split(':')[0]
  } catch (error) {
    return error.cause?.message ?? error.message
  }
}
for (const url of process.argv.slice(1)) console.log(await get(url))
`
const curl = `
for url in "$@"; do
  curl --silent --show-error --max-time 20 --cacert "$SSL_CERT_FILE" "$url" 2>&1 | sed 's/:.*//'; echo
done
`
const clients: { readonly [name: string]: readonly [string, ...string[]] } = {
  curl: ['bash', '-c', curl, 'bash'],
  python: ['python3', '-I', '-c', python],
  node: [process.execPath, '--input-type=module', '-e', node],
}

/** Two servers that may be reached, one that may not, and the environment of a program in the sandbox. */
async function setUp(t: TestContext) {
  const plain = await serve(t, (_, response) => response.end('plain'))
  const forbidden = await serve(t, (_, response) => response.end('forbidden'))
  const secure = await serveTls(t)
  const name = { origin: `http://plain.test:${plain.port}` }
  const proxy = await proxyFor(t, { allow: here(name, secure), lookup })
  const certificate = join(await tempFolder(t), 'ca.pem')
  await writeFile(certificate, testCertificate)
  const address = await relay(t, proxy.path)
  const env = {
    ...{
      PATH: process.env.PATH,
      SSL_CERT_FILE: certificate,
      NODE_EXTRA_CA_CERTS: certificate,
      NODE_USE_ENV_PROXY: '1',
    },
    HTTP_PROXY: address,
    HTTPS_PROXY: address,
    http_proxy: address,
    https_proxy: address,
  }
  const urls = [
    ...[`${name.origin}/a`, `${secure.origin}/b`],
    ...[`http://plain.test:${forbidden.port}/c`, `https://secure.test:${forbidden.port}/d`],
  ]
  return { plain, forbidden, secure, proxy, env, urls }
}

async function isInstalled(command: string): Promise<boolean> {
  return run(command, ['--version']).then(
    () => true,
    () => false,
  )
}

for (const [name, [command, ...args]] of Object.entries(clients)) {
  test(`${name} reaches only allowed origins through the proxy, by HTTP and by TLS`, async (t) => {
    if (!(await isInstalled(name === 'curl' ? 'curl' : command))) return t.skip(`${name} is not installed`)
    const { plain, forbidden, secure, proxy, env, urls } = await setUp(t)
    const { stdout } = await run(command, [...args, ...urls], { env, timeout: 25_000 })
    const [first, second, ...refused] = stdout.split('\n').filter((line) => line !== '')
    assert.deepEqual([first, second], ['plain', 'encrypted'], stdout)
    assert.equal(refused.length, 2, stdout)
    assert.deepEqual(
      plain.seen.map(({ method, url }) => `${method} ${url}`),
      ['GET /a'],
    )
    assert.deepEqual(secure.seen, ['GET /b'])
    assert.equal(forbidden.connections(), 0)
    assert.deepEqual(
      proxy.events.map(({ owner, outcome }) => `${owner} ${outcome}`),
      ['connected', 'connected', 'refused', 'refused'].map((outcome) => `sandbox:1 ${outcome}`),
    )
  })
}
