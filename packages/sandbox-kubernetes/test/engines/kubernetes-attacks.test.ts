import { testPodAttacks } from './pod-attacks.fixture.ts'

testPodAttacks('kubernetes', 'pods')
