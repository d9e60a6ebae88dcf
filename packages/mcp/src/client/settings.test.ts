import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { mcp } from './mcp.ts'
import type { McpOptions } from './settings.ts'

function faultOf(options: object): string {
  try {
    mcp(options as McpOptions)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID')
    return error.message
  }
  return ''
}

const command = ['server']

test('a server needs a name that can be a namespace, and either a command or a url', () => {
  assert.equal(faultOf({ name: 'files', command }), '')
  assert.equal(faultOf({ name: 'files', url: 'https://example.com/mcp' }), '')
  assert.match(faultOf({ name: 'two words', command }), /\/name cannot be a namespace/)
  assert.match(faultOf({ command }), /\/name/)
  assert.match(faultOf({ name: 'files' }), /exactly one of them must be given/)
  assert.match(faultOf({ name: 'files', command, url: 'https://example.com' }), /exactly one/)
})

test('invalid options are refused with their path, and unknown ones with a suggestion', () => {
  assert.match(faultOf({ name: 'files', command, timeoutms: 1 }), /\/timeoutms is not an option.*"timeoutMs"/)
  assert.match(faultOf({ name: 'files', command: 'npx server' }), /\/command must be a list: program, then arguments/)
  assert.match(faultOf({ name: 'files', command: [] }), /\/command/)
  assert.match(
    faultOf({ name: 'files', command, effects: { read: 'safe' } }),
    /\/effects\/read must be one of read, keyed/,
  )
  assert.match(faultOf({ name: 'files', url: 'file:///etc/passwd' }), /\/url must be an http or https address/)
  assert.match(faultOf({ name: 'files', url: 'https://example.com', env: {} }), /\/env is for a command only/)
  assert.match(faultOf({ name: 'files', command, private: true }), /\/private is for a url only/)
  assert.match(faultOf({ name: 'files', command, restart: { attempts: -1 } }), /\/restart\/attempts/)
})

test('the options of an OAuth grant are required', () => {
  const oauthFault = (oauth: object) => faultOf({ name: 'files', url: 'https://example.com', oauth })
  assert.match(oauthFault({}), /\/oauth\/grant/)
  assert.match(oauthFault({ grant: 'client_credentials' }), /\/oauth\/clientId.*\/oauth\/clientSecret/)
  assert.match(oauthFault({ grant: 'authorization_code' }), /\/oauth\/redirectUrl.*\/oauth\/onRedirect/)
  assert.equal(oauthFault({ grant: 'client_credentials', clientId: 'a', clientSecret: 'secret:b' }), '')
})
