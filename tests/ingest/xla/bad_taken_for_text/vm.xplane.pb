
����	/host:CPU�