import { testPodAttacks } from './pod-attacks.fixture.ts'

testPodAttacks('agent-sandbox', 'agent-sandbox')
