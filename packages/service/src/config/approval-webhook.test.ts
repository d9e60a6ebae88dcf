import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load, refusedPaths } from './config.fixture.ts'

test('the webhook of approvals and the link are read from the file', async () => {
  const approvals = {
    webhook: { url: 'https://hooks.example.com/approvals', secret: 'APPROVALS_KEY' },
    link: 'https://console.example.com/approvals/{id}',
  }
  assert.deepEqual((await load({ approvals })).service.approvals, approvals)
})

test('a webhook of approvals that the egress guard would refuse with every message is refused at the start', async () => {
  const at = async (webhook: object, more: object = {}) => await refusedPaths({ approvals: { webhook }, ...more })
  const url = ['/approvals/webhook/url']
  assert.deepEqual(await at({ url: 'http://127.0.0.1:8080/hook' }), url)
  assert.deepEqual(await at({ url: 'http://169.254.169.254/', private: true }), url)
  assert.deepEqual(await at({ url: 'https://user:word@hooks.example.com/' }), url)
  assert.deepEqual(await at({ url: 'ftp://hooks.example.com/' }), url)
  assert.deepEqual(await at({}), ['/approvals/webhook'])
  assert.deepEqual(await at({ url: 'https://hooks.example.com/', key: 'x' }), ['/approvals/webhook/key'])
  const webhook = { url: 'http://127.0.0.1:8080/hook', private: true }
  assert.ok(await load({ approvals: { webhook }, egress: { allow: [] } }), 'the rules of tools do not apply')
})

test('a link that is no web address is refused', async () => {
  assert.deepEqual(await refusedPaths({ approvals: { link: 'javascript:alert(1)' } }), ['/approvals/link'])
})
