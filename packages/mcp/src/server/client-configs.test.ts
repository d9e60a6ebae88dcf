import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientConfig, clientNames } from './client-configs.ts'

const url = 'http://127.0.0.1:7420/mcp'

test('clientConfig names the command to start in the format of each client', () => {
  const way = { kind: 'stdio', command: '/bin/node', args: ['gantry', 'mcp'] } as const
  for (const client of clientNames) {
    const { text } = clientConfig(client, way)
    if (client === 'codex') {
      assert.equal(text, '[mcp_servers.gantry]\ncommand = "/bin/node"\nargs = ["gantry","mcp"]')
      continue
    }
    const document = JSON.parse(text)
    const { command, args } = (document.mcpServers ?? document.servers).gantry
    assert.deepEqual([command, args], [way.command, way.args], client)
  }
})

test('a client configuration holds the API key only on request', () => {
  const key = 'gk_secret'
  for (const client of clientNames) {
    const without = clientConfig(client, { kind: 'http', url, key: undefined })
    assert.ok(without.text.includes(url), client)
    const { text } = clientConfig(client, { kind: 'http', url, key })
    // Claude Desktop takes connectors by their address alone.
    assert.equal(text.includes(key), client !== 'claude-desktop', client)
    if (client !== 'claude-desktop') assert.match(without.text, /GANTRY_KEY|input:gantry-key/, client)
  }
})
