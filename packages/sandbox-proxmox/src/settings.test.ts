import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openProxmoxRuntime, type ProxmoxSettings, proxmoxChecks } from './settings.ts'

const settings: ProxmoxSettings = {
  url: 'https://pve1.example:8006',
  fingerprint: 'AB:'.repeat(31).concat('AB'),
  tokenId: 'gantry@pve!sandboxes',
  token: 'secret:pve-token',
  node: 'pve1',
  template: 9_000,
  vmids: { first: 9_100, last: 9_199 },
  network: { bridge: 'vmbr9', from: '10.77.0.16/24' },
  agentKey: 'secret:pve-agent-key',
}
const issuesOf = (part: object): readonly string[] =>
  proxmoxChecks.proxmox
    .issues({ ...settings, ...part }, '/runtimes/proxmox')
    .map(({ path, message }) => `${path.replace('/runtimes/proxmox', '')} ${message}`)

test('the settings of the documentation are accepted', () => {
  assert.deepEqual(issuesOf({}), [])
  assert.ok(proxmoxChecks.proxmox.fits(settings))
})

test('each wrong setting is refused with its path', () => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ url: 'http://pve1.example:8006' }, /^\/url must be a URL such as https/],
    [{ url: 'https://root:x@pve1.example:8006' }, /^\/url must not hold credentials/],
    [{ url: 'https://pve1.example:8006/api2' }, /^\/url must end after the port/],
    [{ fingerprint: 'AB:CD' }, /^\/fingerprint must be a SHA-256 fingerprint/],
    [{ tokenId: 'gantry@pve' }, /^\/tokenId must be a token as user@realm!name/],
    [{ token: 'has a space in it' }, /^\/token must be the secret/],
    [{ node: '../pve1' }, /^\/node must be the name of a node/],
    [{ template: 7 }, /^\/template must be a whole number from 100/],
    [{ template: 9_150 }, /^\/template must be outside of vmids/],
    [{ vmids: { first: 9_199, last: 9_100 } }, /^\/vmids\/last must make a range/],
    [
      { network: { bridge: 'vmbr9,ip=dhcp', from: '10.77.0.16/24' } },
      /^\/network\/bridge must be the name of a bridge/,
    ],
    [{ network: { bridge: 'vmbr9', from: '10.77.0.16' } }, /^\/network\/from must be an IPv4 address/],
    [{ network: { bridge: 'vmbr9', from: '10.77.0.160/24' } }, /^\/network\/from must leave 100 addresses/],
    [{ network: { bridge: 'vmbr9', from: '10.77.0.0/24' } }, /^\/network\/from must leave 100 addresses/],
    [{ agentKey: 'short' }, /^\/agentKey must be secret:name, or 32 to 512/],
    [{ caFile: 'ca.pem' }, /^\/caFile cannot be together with fingerprint/],
    [{ pool: '/root' }, /^\/pool must be the name of a pool/],
    [{ processors: 0 }, /^\/processors must be a number above 0/],
    [{ password: 'x' }, /^\/password /],
  ]
  for (const [part, message] of wrong) {
    const found = issuesOf(part)
    assert.equal(found.length, 1, JSON.stringify([part, found]))
    assert.match(found[0] ?? '', message)
    assert.ok(!proxmoxChecks.proxmox.fits({ ...settings, ...part }))
  }
})

test('a secret that is in no source ends the first use with its name', async () => {
  const runtime = await openProxmoxRuntime({ ...settings, url: 'https://127.0.0.1:1' }, {})
  const probe = await runtime.probe(AbortSignal.timeout(10_000))
  await runtime.close()
  assert.ok(!probe.available)
  assert.match(probe.reason, /The secret pve-token, the secret of its token for runtimes\.proxmox, is in no source/)
})
