import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { sdkServer } from './sdk-server.fixture.ts'

serveStdio(sdkServer, { legacy: process.argv[2] === 'modern-only' ? 'reject' : 'serve' })
