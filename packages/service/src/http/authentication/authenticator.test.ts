import { testAuthenticator } from '../../conformance/authenticator.ts'
import { keyFileAuthenticator } from './authenticator.ts'

const key = `gk_${'k'.repeat(43)}`
const identity = { principal: 'me', tenant: 'mine', permissions: ['*'] }
const shown = (authorization: string) => ({ method: 'GET', path: '/', headers: { authorization } })

testAuthenticator('key file', async () => ({
  authenticator: keyFileAuthenticator(key, identity),
  good: async () => ({ presented: shown(`Bearer ${key}`), identity }),
  wrong: async () =>
    Object.fromEntries(
      [
        key,
        `Bearer ${key}x`,
        `Bearer ${key.slice(1)}`,
        `Bearer ${key} `,
        `Bearer ${'x'.repeat(9_000)}`,
        `Bearer ${key}\u0000`,
        `Bearer ${key.toUpperCase()}`,
        `Bearer ${key}, Bearer ${key}`,
        `Basic ${key}`,
      ].map((text) => [text, shown(text)]),
    ),
}))
