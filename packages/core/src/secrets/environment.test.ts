import { testSecretSource } from '@gantry/conformance/internal/host-ports'
import { environmentSecrets } from './environment.ts'

testSecretSource('environment', () =>
  environmentSecrets({ api: 'API_SECRET' }, { API_SECRET: 'correct-horse', OTHER: 'not for tools' }),
)
